"""The wordings by which a sentence refuses to answer, in English, Russian and Chinese.

`refusals` matches them against one sentence in small letters, its contractions written out and its
adverbs left out (`refusals.plain`).  A rule names who cannot do what: a negative alone ("you cannot
return it", "the museum is not open", "не работает", "不收取费用") is an answer like any other.
To match none of the test's negatives goes before finding one more refusal: in new wordings one or two in ten
are missed.  What stands under a condition or in a quotation does not count.  Every repetition is bounded, so
that a sentence is searched in linear time.
"""

__all__ = [
    "ADVERBS",
    "CHINESE",
    "COURTEOUS",
    "COURTESIES",
    "ENGLISH",
    "HINTS",
    "REFUSING",
    "RUSSIAN",
]

# ------------------------------------------------------------------ English

ADVERBS = (
    "really very so terribly currently also simply still explicitly specifically directly actually clearly "
    "fully either necessarily unfortunately sadly regrettably reliably possibly definitively accurately "
    "confidently precisely exactly just even yet honestly immediately personally however therefore "
    "adequately sufficiently further"
)
"""Left out of a sentence before it is matched."""

_ARTICLES = (
    r"(?:(?:the|these|those|this|that|your|my|our|any|either|both|all|of|from|given|provided|available|retrieved|"
    r"supplied|attached|above|following|current|existing|relevant|entire|whole|several|two|three|few|"
    r"single|indexed|internal) ){0,5}"
)
_STRONG = (
    r"(?:documents?|passages?|contexts?|sources?|excerpts?|snippets?|knowledge bases?|search results?|"
    r"documentation|extracts?|paragraphs?|chunks?|fragments?|source material|materials?|articles?|texts?|"
    r"records? (?:i|we) have|pages?|reports?|files?|transcripts?|corpus|database|manuals?)"
)
_WEAK = r"(?:information|data|content|contents|details?|results?|references?|input|facts|material)"
# What was given to read. A word like "data" only when it says that it was given.
_GIVEN = (
    r"(?:provided|given|available|retrieved|supplied|attached|above|following|at hand|shared|shown|"
    r"i have|we have|i was given|you (?:provided|gave|shared|supplied|sent)(?: me| us)?|at my disposal|"
    r"(?:that|which) (?:i|we) (?:have|had|found|see|(?:was|were|have been) (?:given|shown|sent|provided(?: with)?))|"
    r"(?:that|which) (?:was|were|is|are|has been|have been) "
    r"(?:provided|given|available|retrieved|supplied|shared|shown|found|returned|attached))"
)
_SOURCE = (
    rf"(?:{_ARTICLES}{_STRONG}(?: {_GIVEN})?|(?:the |this |that |my |our |any )?{_GIVEN} {_WEAK}"
    rf"|(?:the |any |what )?{_WEAK} {_GIVEN}|my (?:knowledge|training data|information|data|notes|index|tools)"
    r"|what (?:i|we) (?:have|was given|were given|found)|what (?:is|was) (?:provided|given|retrieved|available))"
)
_INFO = (
    r"(?:information|info|details?|data|answers?|mentions?|references?|knowledge|evidence|context|specifics|"
    r"indications?|explanations?|insights?|clarity|figures?|facts?|documentation|documents?|passages?|sources?|material|"
    r"content|description|guidance|clues?|clarification|results?|entry|entries|record|records|basis)"
)
_SURE_INFO = r"(?:information|info|details?|mentions?|answer|references? to|indication|specifics|explanation)"
_WHICH = r"(?:(?:\w+|up-to-date) ){0,3}"
# What one who lacks the information cannot do; and what may be a service as well.
_KNOW = (
    r"(?:answer|find|determine|tell|confirm|locate|say|respond|reply|comment|verify|identify|infer|deduce|conclude|"
    r"establish|ascertain|derive|elaborate|speak to|state|specify|figure out|work out|pin down|make out|"
    r"draw (?:a|any) conclusions?|see (?:any|a|the|that|where|how|it)|be (?:of help|certain|sure))"
)
_GIVE = (
    r"(?:help|assist|provide|offer|supply|retrieve|give|share|point to|advise on|name|list|access|explain|describe|"
    r"extract|discuss|address|comply|fulfil+)"
)
_ANSWER = rf"(?:{_KNOW}|{_GIVE})"
_WONDER = (
    r"(?:determine|say|tell|know|answer|infer|conclude|establish|ascertain|deduce|identify|judge|"
    r"work out|figure out|derive)"
)
_SAY = (
    r"(?:mention|specify|say|state|discuss|describe|indicate|explain|reveal|disclose|clarify|elaborate|tell|"
    r"address|detail|answer|refer|name|note|report|speak|talk|touch|shed|go into|comment|make (?:any )?(?:mention|reference)|"
    r"make clear|identify|define|quote|cite|document|deal with|mention|outline|list|cover)"
)
_HOLD = r"(?:provide|contain|include|give|offer|have|hold|present|show|supply|carry|support|allow|seem to \w+|appear to \w+)"
_SAID = (
    r"(?:mentioned|provided|specified|stated|given|available|included|discussed|covered|described|found|listed|"
    r"addressed|answered|present|contained|explained|disclosed|documented|indicated|reported|referenced|named|"
    r"known|clear|evident|obvious|shown|detailed|defined|clarified|recorded|touched upon|touched on|dealt with|part)"
)
_ASKED = r"(?:who|what|when|where|why|how|whether|if|which|whose)"
_THAT = (
    r"(?:(?:the|this|that|your|such|an?|any|requested|exact|specific|full|required|precise) ){0,3}"
    r"(?:information|info|answers?|details?|questions?|topic|subject|point|issue|data|this|that|it|specifics)"
)
_ME = r"\b(?:i|we)"
_NOT = r"(?:did|can|could|will|would|am|are|was|were|have) not"
_ABLE = r"(?:been )?(?:(?:able|in a position|equipped|qualified) to )?(?:seem to )?(?:be able to )?(?:\w+ly )?"

ENGLISH = (
    # sorry, but I cannot do that; I neither have ... nor am able to
    (
        r"\b(?:sorry|afraid|apologi[sz]e|apologies)\b.{0,20}?(?:\b(?:i|we) )?(?:can|could|am|are) not (?:able to )?"
        r"(?:do|advise|comply|fulfil+|process|support|continue|engage|create|generate|write|discuss|share|give|help|assist|provide)\b"
    ),
    r"\bi neither (?:have|know|possess)\b",
    r"\b(?:i|we) (?:\w+ ){0,3}declin(?:e|ed|ing) to (?:answer|comment|respond|reply|say|discuss|help|assist)\b",
    (
        r"\b(?:(?:i|we) (?:am|are) (?:not (?:permitted|allowed|authori[sz]ed|supposed|willing)|forbidden|prohibited)|"
        r"not (?:something|anything) (?:that )?(?:i|we) (?:can|could|will|am able|are able)|"
        r"(?:i|we)(?: would|'d) (?:rather|prefer) not)\b(?: \w+){0,2}? "
        r"(?:discuss|share|answer|say|help|assist|talk|provide|give|comment|advise)\b"
    ),
    # I cannot answer; I was not able to find; I am unable to say
    rf"\bi {_NOT} {_ABLE}{_ANSWER}\b",
    rf"\bwe {_NOT} {_ABLE}{_ANSWER}\b(?=\W*$|.{{0,50}}\b(?:{_INFO}|{_ASKED}|question|this|that)\b)",
    rf"(?:{_ME} (?:am|are|was|were|have been|remain)|^\W*) ?(?:unable|not able|powerless) to (?:\w+ly )?{_ANSWER}\b",
    rf"{_ME} (?:failed|struggle[d]?) to (?:find|locate|identify|determine)\b",
    r"^\W*(?:sorry|apologies)?\W*(?:could|can|did) not (?:find|locate|determine|answer|identify)\b",
    # I do not know, I have no idea, I am not sure what
    r"\bi do not (?:know|have (?:an?|any|the) (?:answer|idea|clue))\b",
    rf"\bwe do not know(?:\W*$| {_ASKED}\b| the answer\b| that\b)",
    rf"{_ME} (?:do|did) not (?:have|see|find|possess|hold|recognize)\b.{{0,40}}?\b(?:{_INFO}|access|enough|that|this|anything|idea)\b",
    rf"{_ME} (?:have|see|found|find|possess|hold|got|located) (?:no|not enough|insufficient|too little) {_WHICH}(?:{_INFO}|idea|clue|access)\b",
    rf"{_ME} (?:have|see|found|find|possess|located) (?:nothing|none)\b",
    rf"{_ME} (?:have not|had not|was not|were not|are not) (?:been )?(?:found|seen|given|come across|got|received|located|encountered|shown|provided(?: with)?) (?:any|anything|enough|the|that|this|it|such)\b",
    rf"{_ME} lack\b",
    rf"{_ME} (?:am|are) not (?:sure|certain|aware|familiar|informed|clear)\b",
    rf"{_ME} (?:would|will) (?:need|require) (?:more|additional) {_WHICH}{_INFO}\b",
    r"\bas an ai\b.{0,60}\b(?:not|unable)\b",
    # the documents do not say; the context lacks details; the sources are silent
    rf"\b{_SOURCE},? (?:do|does|did|can|could|will) not {_SAY}\b(?! to\b| (?:fees|costs|expenses|damages?)\b)",
    rf"\b(?:not|hardly) (?:something|anything|a (?:topic|subject|question|point)) (?:that )?{_SOURCE}",
    rf"\bneither (?:of )?(?:{_STRONG}|{_SOURCE}) {_SAY}\w*\b",
    rf"\b(?:the|these|those|this|that|any|my|our|your|provided|given|retrieved|available) (?:\w+ ){{0,2}}?{_STRONG}(?: {_GIVEN})? (?:do|does|did) not {_HOLD}\b.{{0,60}}?\b{_INFO}\b",
    rf"\b(?:{_GIVEN} (?:{_STRONG}|{_WEAK})|(?:{_STRONG}|{_WEAK}) {_GIVEN}|contexts?|passages|excerpts|snippets|sources) (?:do|does|did) not {_HOLD}\b(?! to\b)",
    rf"\b{_SOURCE} (?:do|does|did) not (?:help|suffice)\b",
    rf"\b{_SOURCE} (?:lacks?|omits?|leaves? (?:this |that |the |it )?(?:question |point |matter |issue )?(?:out|open|unclear|unanswered)|fails? to {_SAY}|fails? to {_HOLD}|says? little)\b",
    (
        rf"\b{_SOURCE} (?:has|have|had|contains?|says?|offers?|provides?|gives?|includes?|holds?|states?|makes?|shows?) "
        rf"(?:nothing|(?:no|insufficient|not enough|too little|little) (?:\w+ ){{0,2}}{_INFO})\b"
    ),
    rf"\b{_SOURCE} (?:is|are|remains?|was|were) (?:silent|mute|insufficient|inconclusive|not sufficient|not enough|unclear|vague|incomplete)\b",
    rf"\b(?:none of|nothing in|nowhere in|neither of|no part of|no) {_SOURCE} (?:\w+ )?(?:{_SAY}|{_HOLD})\w*\b",
    rf"\b(?:none of|nothing in|nowhere in|neither of) {_SOURCE}",
    rf"\bit does not (?:provide|mention|specify|say|contain|state|explain|give|indicate)\b.{{0,40}}\b(?:{_SURE_INFO}|specific\w*|{_ASKED})\b",
    # it is not mentioned in the text; that is missing from the sources
    rf"\b(?:is|are|was|were|has been|been|be|seems?|appears?) (?:not|nowhere) (?:be |been )?(?:to be )?{_SAID} (?:in|by|within|from|anywhere in|of|among) {_SOURCE}",
    rf"\b(?:is|are|was|were|seems|appears) (?:missing|absent|lacking|omitted|left out|unavailable)\b.{{0,20}}\b(?:from|in) {_SOURCE}",
    rf"\b(?:do|does|did) not (?:appear|occur|feature|show up|come up) (?:anywhere )?(?:in|within|among) {_SOURCE}",
    rf"\b(?:is|are|was|were) not (?:in|within|among|part of|covered by|supported by|answered by) {_SOURCE}",
    rf"(?:^\W*(?:\w+\W+){{0,4}}?|\bbut |\bthough ){_THAT}\b[^,;:.]{{0,40}} (?:is|are|was|were) not {_SAID}(?: (?:to me|here|at this time|at the moment|right now|there))?\W*$",
    rf"(?:^\W*(?:\w+\W+){{0,4}}?){_THAT} (?:is|are|was|were) (?:missing|unavailable|lacking|absent|nowhere to be found|unknown to me)\b",
    r"^\W*(?:the |an? |any )?(?:exact|specific|precise|actual|particular|total|full|concrete) [^.,;:]{1,60} (?:is|are|was|were) not (?:given|mentioned|stated|specified|provided|disclosed|named|indicated)\W*$",
    rf"\b(?:it|this|that) is not (?:stated|mentioned|specified|said|known|covered|indicated|described|clear|given|disclosed|explained|recorded|reported) (?:{_ASKED}|in {_SOURCE}|anywhere)\b",
    # there is no information; not enough information to answer
    rf"\bthere (?:is|are|was|were|seems to be|appears to be) (?:no|not any|not enough|insufficient|too little|little) {_WHICH}{_SURE_INFO}\b(?! (?:desk|security|loss|leak|keys?|sheets?|machine)\b)",
    rf"\bthere (?:is|are|was|were) not (?:any |enough |sufficient |much |an? )(?:\w+ ){{0,2}}(?:{_INFO})\b",
    rf"\bthere (?:is|are|was|were|seems to be|appears to be) (?:no|insufficient|nothing|no \w+) (?:\w+ ){{0,2}}?(?:{_INFO} )?(?:\w+ ){{0,6}}?(?:in|within|among) {_SOURCE}",
    rf"\b(?:not enough|insufficient|too little|lack of|lacking) (?:(?:relevant|specific|concrete|direct|detailed|such|clear) )?{_INFO}\b.{{0,30}}\b(?:to (?:\w+ )?{_ANSWER}|available|provided|(?:was|were|is|are|could be) (?:found|given|available|provided))\b",
    rf"\bno (?:\w+ ){{0,2}}(?:{_SURE_INFO}|mention|reference)\b[^.!?]{{0,40}}\b(?:is|are|was|were|could be|can be|has been) (?:available|provided|found|given|included|made|located|retrieved|stated|offered)\b",
    rf"\b(?:no|any) (?:\w+ ){{0,2}}(?:{_SURE_INFO}|mention|reference)\b[^.!?]{{0,40}}\b(?:in|from|within) {_SOURCE}",
    rf"\b(?:more|additional) {_WHICH}(?:information|context|details?|data) (?:is|are|would be) (?:needed|required|necessary) (?:to|for|before)\b",
    # it is not possible to say; the answer cannot be determined
    rf"\b(?:it is|it remains|it was|is|remains) (?:not possible|impossible|not feasible|difficult|hard) (?:for me )?(?:to {_WONDER}|from {_SOURCE})\b",
    rf"\b(?:it is|it remains|it was) (?:unclear|not clear|not known|unknown|uncertain) (?:to me|from|based on|{_ASKED})\b",
    rf"\b(?:unclear|not clear|not evident|not apparent|impossible to \w+|not possible to \w+) (?:\w+ )?(?:from|in|based on|given|using) {_SOURCE}",
    rf"\b(?:based on|according to|from|given|in|within|using|on the basis of|with) {_SOURCE},? (?:alone,? |only,? )?(?:it|there|i|we|one|this|that|the (?:answer|question))? ?(?:is |are |am |can |could |do )*(?:not (?:be )?(?:possible|clear|answer|determine|say|tell|confirm|known|infer|deduc|conclu)|unclear|unable|impossible|unknown|cannot)",
    rf"\b(?:{_THAT}|question|answer)\b[^.!?]{{0,40}}\b(?:can|could) not be (?:determined|answered|inferred|established|derived|deduced|confirmed|ascertained|verified|provided|given|located)\b",
    rf"\b(?:can|could) not be (?:determined|answered|inferred|established|found|derived|deduced|confirmed|ascertained|verified|identified|gleaned|concluded)\b.{{0,20}} (?:from|in|with|using|based on|by) {_SOURCE}",
    r"\bnot (?:be )?(?:answerable|determinable)\b",
    r"\b(?:remains?|is left|goes|left) (?:unanswered|unstated|unspecified)\b|\b(?:is|are) (?:left )?(?:unstated|unspecified|unanswerable)\b",
    # beyond what I know
    rf"\b(?:beyond|outside)(?: of)? (?:what (?:i|we) (?:can|know|have)|(?:(?:the )?(?:scope|bounds|range|limits|reach|realm|coverage|extent) of )?(?:my |our )?(?:{_SOURCE}|knowledge|expertise|capabilities|scope|remit|information|abilities))(?!\w)",
    r"\bmy (?:knowledge|information|training|data|sources?)\b.{0,20}\b(?:not|limited|no|nothing|ends?)\b",
    # the whole sentence
    (
        rf"^\W*(?:(?:sorry|apologies|answer|result)\W+)?(?:no (?:\w+ ){{0,2}}(?:{_INFO}|match(?:es)?)(?: (?:was|were|is|are|could be))?(?: (?:found|available|provided|given|retrieved|on file))?|nothing (?:\w+ )?(?:was )?(?:found|available|retrieved|to report)"
        rf"|not (?:found|available|provided|specified|mentioned|stated|given|known|disclosed|answerable|applicable|sure|enough {_INFO})|n/?a|unknown|no idea|no clue|unanswerable|unspecified|none|insufficient {_INFO}"
        rf"|{_INFO} (?:is |are )?(?:not (?:found|available|given|provided)|unavailable|missing))(?: (?:in|for|about|on|regarding|to) .{{0,60}})?\W*$"
    ),
)

# ------------------------------------------------------------------ Russian

_RU_SOURCE = (
    r"(?:документ\w*|текст\w{0,3}|контекст\w*|источник\w*|отрыв\w+|материал\w*|фрагмент\w*|стать(?:е|я|и|ях|ю)|баз\w{1,2} (?:знаний|данных)|"
    r"выдерж\w+|справк\w+|абзац\w*|пассаж\w*|документаци\w+|результат\w* поиска|инструкци\w+|описани\w+|корпус\w*|отчет\w*|файл\w*)"
)
_RU_INFO = r"(?:информаци\w+|данн(?:ых|ые|ыми)|сведени\w+|упоминани\w+|подробност\w+|деталей|ответа?|ответов|указани\w+|фактов|контекст\w*)"
_RU_GIVEN = r"(?:предоставлен\w*|имеющ\w*|доступн\w*|найден\w*|приведен\w*|данн\w*|переданн\w*|полученн\w*|загруженн\w*|представленн\w*|этих|этого|этой|этом|этим|ваш\w*|моей|моих|нашей|наших|указанн\w*|извлеченн\w*|вышеприведенн\w*|прочих|всех|одном|ни|из)"
_RU_WORDS = r"(?:[\w-]+ ){0,4}"
_RU_ANSWER = (
    r"(?:ответить|отвечать|сказать|найти|помочь|предоставить|дать|определить|подсказать|подтвердить|назвать|сообщить|установить|выяснить|"
    r"уточнить|указать|обнаружить|судить|утверждать|привести|объяснить|прокомментировать|ответа|пояснить|отыскать|понять|сделать вывод)"
)
_RU_KNOW = (
    r"(?:ответить|сказать|определить|подтвердить|сообщить|установить|выяснить|судить|утверждать|объяснить|ответа|"
    r"(?:предоставить|дать|привести|найти) (?:[\w-]+ ){0,3}(?:информац\w+|сведени\w+|данн\w+|ответ\w*|подробност\w+))"
)
_RU_TOLD = (
    r"(?:содерж\w+|упомина\w+|упомянут\w*|указ\w+|говор\w+|сказан\w*|сообща\w+|привод\w+|приведен\w*|описа\w+|описы\w+|"
    r"раскрыва\w+|раскрыт\w*|уточн\w+|объясн\w+|отвеча\w+|предоставля\w+|освещ\w+|рассматрива\w+|затраг\w+|затронут\w*|"
    r"обсужда\w+|представлен\w*|предоставлен\w*|найден\w*|нашлось|нашел\w*|встреча\w+|фигуриру\w+|обозначен\w*|отражен\w*|изложен\w*|"
    r"называ\w+|назван\w*|определен\w*|поясня\w+|дает\w*|дают\w*|да[её]тся|хватает|имеется|обнаружен\w*|значится|прописан\w*|зафиксирован\w*)"
)

RUSSIAN = (
    # не знаю, не могу ответить, не удалось найти
    rf"(?:^|\W)(?<!он )(?<!она )(?<!они )не (?:знаю|знаем|могу {_RU_WORDS}{_RU_ANSWER}|можем {_RU_WORDS}{_RU_KNOW}|в курсе)",
    rf"(?:^|\W)(?:я|мы) {_RU_WORDS}не (?:\w+ )?(?:смог\w*|сумел\w*|нашел|нашла|нашли|вижу|видим|нахожу|обнаружил\w*|встретил\w*|имею|имеем|уверен\w*|увидел\w*|располага\w+|облада\w+|владе\w+|получил\w*|знаком\w*)(?:\W|$)",
    rf"(?:^|\W)не (?:смог\w*|сумел\w*) {_RU_WORDS}(?:найти|ответить на (?:этот|ваш|данный)|определить ответ|обнаружить)(?=.{{0,60}}(?:{_RU_SOURCE}|{_RU_INFO}|вопрос))",
    rf"^\W*(?:к сожалению\W+|увы\W+)?не (?:нашел|нашла|нашли|вижу|обнаружил\w*|встретил\w*)(?=.{{0,60}}(?:{_RU_SOURCE}|{_RU_INFO}|\W(?:этого|об этом)(?:\W|$)))",
    rf"(?:^|\W)не удалось {_RU_WORDS}(?:найти|обнаружить|определить|установить|получить|отыскать|выяснить|извлечь)",
    rf"(?:^|\W)не (?:нашлось|найдено)(?=\W*$|.{{0,60}}(?:{_RU_SOURCE}|{_RU_INFO}|ответ|ничего|по (?:этому|вашему|данному|запросу)))",
    rf"(?:^|\W)не располага(?:ю|ем)(?:\W|$)|(?:^|\W)не (?:облада(?:ю|ем)|владе(?:ю|ем)) {_RU_WORDS}{_RU_INFO}",
    r"(?:^|\W)(?:мне|нам) (?:\w+ )?(?:не (?:известн\w+|удалось|хватает|ясн\w+|понятн\w+)|неизвестн\w*|неясн\w*|непонятн\w*|нечего (?:сказать|ответить))(?:\W|$)",
    rf"(?:^|\W)(?:у меня|у нас|в мо[её]м распоряжении|в нашем распоряжении) {_RU_WORDS}(?:нет|отсутству\w+|недостаточно|не имеется|не хватает|мало)(?= [\w-]+|\W*$)(?:\W*$| {_RU_WORDS}(?:{_RU_INFO}|доступа к|знаний|источник\w*|этого|такого)(?:\W|$))",
    rf"(?:^|\W)нет {_RU_WORDS}(?:у меня|у нас|в мо[её]м распоряжении|в нашем распоряжении)(?:\W|$)",
    r"(?:^|\W)затрудня(?:юсь|емся)",
    # нет информации; сведения отсутствуют
    rf"(?:^|\W)(?:нет|отсутству\w+|недостаточно|не хватает|не имеется|не содержится|не нашлось|не найдено|не обнаружено|мало|никаких|никакой|без) {_RU_WORDS}(?:информации|информация|сведени(?:й|я)|данных(?: (?:о|об|для|по|чтобы)(?=\W))|упоминани(?:й|я|е)|ответа на|подробност(?:ей|и) о|контекст\w*)",
    rf"(?:информаци(?:я|и)|сведени(?:я|й)|данн(?:ых|ые)|упоминани(?:я|й|е)|подробност(?:и|ей)|(?<!если )ответ\w?)(?: [\w-]+){{0,7}},? (?:нет(?= (?:в|во|у|на|ни|к)\W|\W*$|\W*[.;])|отсутству\w+|недоступн\w*|недостаточно|не (?:\w+ )?{_RU_TOLD})(?! (?:треть|никому|друг))",
    # в тексте не указано; документы не содержат
    rf"{_RU_SOURCE}(?: [\w-]+){{0,5}},? не (?:\w+ )?(?:{_RU_TOLD}|позволя\w+ {_RU_WORDS}{_RU_ANSWER})",
    rf"не {_RU_TOLD} {_RU_WORDS}(?:в|во|ни в одном из) {_RU_WORDS}{_RU_SOURCE}",
    rf"(?:^|\W)(?:в|во|из|среди) {_RU_WORDS}{_RU_SOURCE}(?: [\w-]+){{0,3}},? (?:(?:об этом|про это|на этот счет|по этому поводу|по этому вопросу) )?(?:(?:ничего|ни слова|нигде|отсутству\w+|недостаточно|умалчива\w+)(?:\W|$)|нет(?:\W*$| {_RU_WORDS}{_RU_INFO}))",
    rf"{_RU_SOURCE}(?: [\w-]+){{0,3}} (?:умалчива\w+|молчит|молчат|обход\w+ (?:это|этот|данный) \w+)",
    rf"(?:отсутству\w+|нет|нигде) (?:[\w-]+ ){{0,4}}(?:в|во) (?:[\w-]+ ){{0,3}}?{_RU_GIVEN}? ?{_RU_SOURCE}",
    rf"(?:ни (?:в )?один|ни (?:в )?одном|ни (?:в )?одна|ничто|нигде) (?:из |в )?{_RU_WORDS}{_RU_SOURCE}",
    r"(?:это|этого|об этом|этот вопрос|данный вопрос|этот момент|эта тема|такая информация|точн\w+ \w+|конкретн\w+ \w+)(?: [\w-]+){0,3} (?:нигде )?не (?:\w+ )?(?:указан\w*|упомина\w+|уточня\w+|сообща\w+|говорит\w+|сказано|приводит\w+|привод\w+|освеща\w+|раскрыва\w+|рассматрива\w+|описан\w*|назван\w*|раскрыт\w*)",
    # невозможно определить; из текста неясно
    rf"(?:^|\W)(?:невозможно|нельзя|затруднительно|сложно|трудно|не представляется возможным|не получится|не получается|нет возможности) {_RU_WORDS}(?:ответить|определить (?:по|из|на)|установить (?:по|из|на)|сказать,? (?:точно|наверняка|что|кто|где|когда|как|какой|какая|сколько|по|из|на)|дать (?:\w+ )?ответ|сделать вывод|судить|понять из|узнать из|однозначно)",
    r"(?:ответить|определить|установить|выяснить|сказать|дать \w* ?ответ)(?: [\w-]+){0,6},? (?:невозможно|нельзя|не представляется возможным|не могу|не можем|не получится|затруднительно|не удастся|не удалось)",
    rf"(?:по|на основ\w+|исходя из|опираясь на|согласно|судя по) (?:[\w-]+ ){{0,3}}?{_RU_GIVEN}? ?(?:{_RU_SOURCE}|данн(?:ым|ых)|информации|сведени(?:ям|й)),? {_RU_WORDS}(?:невозможно|нельзя|неясно|не ясно|непонятно|не могу|не можем|сложно|трудно|затруднительно|не удается|не получится|не представляется возможным)",
    rf"из (?:[\w-]+ ){{0,3}}{_RU_SOURCE},? (?:\w+ )?(?:неясно|не ясно|непонятно|не понятно|неизвестно|не следует|нельзя|невозможно|не видно)",
    rf"(?:неясно|не ясно|непонятно|не понятно|неизвестно|не следует|не видно) (?:\w+ ){{0,2}}(?:из|по) {_RU_WORDS}{_RU_SOURCE}",
    r"(?:^|\W)(?:к сожалению|извините|простите|увы|прошу прощения|сожалею)\W.{0,60}\W(?:(?:я|мы) (?:\w+ )?не|не (?:могу|можем|знаю|знаем)|нет (?:\w+ )?(?:информации|данных|сведений|ответа)|не (?:найден|указан|нашел|нашл|упомина|располага|удалось)\w*)",
    r"(?:выход\w+|лежит|находит\w+) за (?:рамк\w+|предел\w+) (?:[\w-]+ ){0,3}(?:документ\w*|контекст\w*|знани\w+|компетенци\w+|информаци\w+|материал\w*|источник\w*|текст\w*|возможност\w+)",
    r"(?:нужно|нужна|требуется|необходимо|необходима|понадобится) (?:больше|дополнительн\w+|более подробн\w+) (?:информаци\w+|данн\w+|контекст\w*|сведени\w+)",
    r"(?:^|\W)(?:(?:я|мы) (?:\w+ )?отказыва\w+ (?:\w+ )?(?:отвечать|обсуждать|комментировать)|(?:мне|нам) (?:\w+ )?нечего (?:\w+ ){0,3}(?:ответить|сказать))",
    # the whole sentence
    (
        r"^\W*(?:неизвестно|не известно|не указано|не упоминается|нет (?:\w+ )?(?:данных|информации|ответа|сведений)|(?:\w+ )?(?:ответ|информация|ничего|данные)(?: \w+)? не найден\w*|ничего не найдено|не найдено|без ответа|нет ответа|"
        r"(?:данные|информация|сведения|ответ) (?:отсутству\w+|недоступн\w+)|недостаточно (?:данных|информации|сведений|контекста).{0,40}|не уверен\w?|понятия не имею|не могу знать|без понятия|не определено)\W*$"
    ),
)

# ------------------------------------------------------------------ Chinese

_ZH_SOURCE = (
    "(?:文档|文件|资料|上下文|文本|文章|段落|材料|来源|语境|知识库|检索结果|检索内容|搜索结果|参考|背景|片段|原文|文中|文内|本文|摘录|引文|节选|资讯|数据库|手册|说明书|"
    "數據|資料|檔案|文獻|文献|內容|信息源|所给内容|提供的(?:信息|内容|数据)|给定的?(?:信息|内容|数据)|已知(?:信息|内容)|现有(?:信息|内容|数据|资料)|检索到的(?:信息|内容|数据)|(?:这些|该|上述|以上|相关)(?:信息|内容|资料|数据))"
)
_ZH_TOLD = (
    "(?:提及|提到|说明|提供|包含|涉及|给出|介绍|指出|描述|找到|回答|明确|包括|记载|列出|解释|讨论|显示|得出|写明|写到|说到|谈到|谈及|详述|述及|论及|阐述|阐明|"
    "透露|标明|注明|交代|讲到|讲|覆盖|涵盖|收录|出现|記載|提供|說明|詳細|详细|见到|看到|查到|规定(?:相关|具体)|(?:相关|有关|关于|足够|充分|任何)(?:的)?)"
)
_ZH_INFO = (
    "(?:信息|资料|内容|数据|答案|说明|记录|证据|细节|线索|记载|描述|资讯|依据|介绍|資訊|資料)"
)
_ZH_WANTED = f"(?:信息|资料|答案|说明|细节|线索|记载|描述|资讯|依据|介绍|資訊|資料|(?:这|此|该|相关|有关|关于|任何|具体|足够|对应|对此)[^。！？]{{0,6}}{_ZH_INFO})"
_ZH_NONE = "(?:没有|未|并未|并没有|沒有|并无|无|未能|没|尚未|不曾|毫无|均未|都未|都没有|均没有|也没有|也未|只字未)"
_ZH_ANSWER = (
    "(?:回答|确定|得知|判断|提供|给出|找到|确认|得出|获知|作答|获取|答复|知晓|知道|解答|推断|推知|推出|查到|断定|回应|帮助您|帮您|帮到您|协助|告诉|说明|看出|了解到|"
    "獲知|確定|回覆|下结论|核实|验证|解释|评论)"
)

_ZH_KNOW = (
    "(?:回答|确定|得知|判断|得出|获知|作答|答复|知晓|知道|解答|推断|断定|回应|下结论|獲知|確定|"
    "(?:提供|给出|找到|查到|确认|获取)[^。！？]{0,10}(?:信息|答案|资料|数据|数字|内容|说明|细节|回答|解答|记录))"
)

CHINESE = (
    r"(?:帮不上忙|帮不了(?:您|你|这)|爱莫能助|(?:回答|答)不(?:了|上来?)|(?:我|我们)(?:必须|只能)?拒绝(?:回答|讨论|评论|提供)|(?:抱歉|对不起|不好意思)[^。！？]{0,8}不(?:能|便|可以)(?:讨论|谈论|分享|透露|评论))(?![^。！？]{0,6}的)",
    r"(?:^|[，。,；;：:\s]|我|我们|对此)(?:并|也|还|尚|暂时|目前)?(?:不知道|不清楚|不了解|不太清楚|不太了解|不确定|不得而知|不晓得|不太确定|一无所知)(?:[。！，,\s]|$|这|该|答案|具体|如何|是否|谁|什么|哪|有|您|此|他|她|它|其|何|到底|究竟)",
    rf"(?:我|我们|本人)[^。！？]{{0,12}}(?:并?不(?:清楚|知道|了解|确定)|{_ZH_NONE}[^。！？]{{0,16}}(?:{_ZH_INFO}|权限|办法|把握|印象)|(?:无法|不能|没办法|没法|難以|难以)[^。！？]{{0,20}}{_ZH_KNOW})",
    rf"{_ZH_SOURCE}(?:中|里|內|内|裡|上|之中)?[^。！？]{{0,15}}(?:{_ZH_NONE}|无法|不足以|不包含|不包括|不含|不涉及|不提供|缺乏|缺少|不能|难以|看不出|找不到|查不到|看不到)[^。！？]{{0,12}}(?:{_ZH_TOLD}|{_ZH_WANTED}|{_ZH_ANSWER})",
    rf"{_ZH_SOURCE}(?:中|里|內|内|裡|上|之中)?[^。！？]{{0,12}}(?:只字未提|避而不谈|付之阙如|语焉不详|空白|不足以|并无此|没有这)",
    rf"(?:从|由|根据|依据|按照|凭|仅凭|就|基于|据|從|根據)[^。！？]{{0,12}}{_ZH_SOURCE}[^。！？]{{0,16}}(?:看不出|看不到|得不出|无法|不能|难以|不足以|無法|不可能|没法|不好)",
    r"(?:找不到|未找到|没找到|没有找到|未能找到|查不到|没有查到|未查到|没查到|未检索到|没有检索到|没有发现|未发现|未能查到|搜不到|未搜索到|检索不到)[^。！？]{0,14}(?:答案|相关|有关|关于|对应|记录|信息|资料|内容|规定|说明|结果|任何|匹配)(?![^。！？，]{0,6}时)",
    rf"{_ZH_SOURCE}(?:中|里|內|内)?[^。！？]{{0,6}}(?:找不到|未找到|没找到|没有找到|查不到|未能找到)(?![^。！？，]{{0,8}}时)",
    r"(?:缺乏|缺少|没有足够|没有充分|没有可用|没有相关|没有相应|没有有关|没有关于|没有任何关于|没有任何相关|没有任何有关|沒有足夠|沒有相關|暂无|尚无|暂时没有|无相关|无可用|并无)(?:的|相关|有关|足够|具体|可用|充分|可靠|此|该|这|方面){0,4}[^。！？，]{0,12}(?:信息|资料|数据|答案|内容|记录|记载|依据来|资讯|上下文|資訊|資料)(?!.{0,4}(?:泄露|安全|丢失))",
    rf"(?:抱歉|对不起|很遗憾|遗憾的是|不好意思|對不起|非常遗憾|可惜)[^。！？]{{0,40}}(?:无法{_ZH_ANSWER}|无法(?:为|给|对|就|从|根据|直接|准确)|不能(?:回答|确定|提供|判断|给出)|未提|未找到|未能|不知道|找不到|沒有(?:找到|提|相關)|没有(?:找到|提|相关|足够|这方面|关于)|無法|不清楚|缺少|缺乏|查不到)",
    r"(?:无法|不能|難以|难以|無法|没法|没办法|不足以|不便)(?:直接|准确|根据|从|就|对|为您|确切|给您|据此|由此|进行|明确|完整|可靠|肯定|具体|予以|给予){0,3}(?:[^。！？，他她它用户]{0,12})?(?:回答(?:您|这|该|此|用户|问题|$|[。！，])|作答|得知|判断(?:$|[。！，]|其|他|她|是否|具体|建|哪|谁|何)|推断|推知|断定|获知|确定(?:$|[。！，]|具体|是否|其|他|她|答案|成立|哪|谁|何|该|这|确切|准确)|给出(?:答案|准确|确切|具体|明确|答复|回答)|提供(?:相关|具体|准确|更多|详细|进一步|确切|任何|足够|有关|此|该|这){0,2}[^。！？]{0,6}(?:答案|信息|资料|数据|数字|说明|回答|解答|内容|细节|日期|价格)|找到(?:答案|相关|关于|有关)|得出(?:答案|结论)|答复(?:您|这|该|此|$|[。！，])|知晓|知道|解答|看出|确认(?:$|[。！，]|具体|是否|其|答案|这|该))",
    rf"(?:无法|不能|难以|無法|没法|没办法)(?:根据|从|由|依据|凭|仅凭|基于|通过|據|根據)[^。！？]{{0,20}}{_ZH_ANSWER}",
    r"(?:信息|资料|上下文|内容|数据|证据|線索|线索|材料|依据)(?:严重|明显|还|仍|尚|都|并|太|过于)?(?:不足|不够|有限|缺失|不完整|不充分|太少|不全)",
    rf"(?:该|此|这个?|这些|您(?:问|要|询问|查询|需要)的|所需|所问|相关|具体|有关|任何)(?:问题|信息|资料|内容|数据|细节|答案|方面|点|情况)[^。！？]{{0,10}}(?:不可用|不可得|未知|不详|缺失|不明确|没有(?:提及|说明|给出|提供|答案|记录|记载)|未(?:提及|说明|给出|提供|涉及|记载|公开|包含|收录)|不在[^。！？]{{0,10}}(?:{_ZH_SOURCE}|范围)|无从(?:得知|知晓|查证|考证))",
    "(?:无从|不得)(?:得知|而知|知晓|查证|考证|判断)",
    rf"(?:超出|超越|不在|不属于)[^。！？]{{0,12}}(?:(?:我|我们)的?(?:能力|知识|回答)?(?:范围|知识)|(?:{_ZH_SOURCE}|知识)[^。！？]{{0,6}}(?:范围|之内|之列|之中|内)?)",
    r"^\W*(?:未知|不详|无|没有答案|无答案|未提及|未说明|无法推断|无相关(?:信息|内容|资料|数据|结果)|没有相关(?:信息|内容|资料|数据)|(?:相关)?信息不足|暂无(?:相关)?(?:信息|数据|资料|记录|答案)?|未提供|无法(?:回答|确定|判断|作答|得知)|没有结果|查无(?:结果|此\w+)|无可奉告|答案未知|不知道|不清楚|不确定|未找到(?:答案|结果)?|没有(?:信息|资料|数据))\W*$",
)

# A sentence without any of these cannot match a rule.
HINTS = {
    "en": (
        r"\bnot\b|\bno\b|\bnone\b|nothing|nowhere|neither|unable|unclear|unknown|impossible|insufficient|inconclusive|lack|silent|"
        r"beyond|outside|declin|\bn/?a\b|unanswer|unstated|unspecif|unavailable|missing|absent|fail|limited|omit|too little|"
        r"\bai\b|\bneed|needed|required|necessary|powerless|struggle|vague|incomplete|difficult|hard to|uncertain|mute|leaves?\b"
    ),
    "ru": r"не|нет|отказ|ни\b|нигде|отсутств|сложно|трудно|затрудн|нельзя|мало|молч|выход|за предел|за рамк|нужн|требуется|понадобится|без ",
    "zh": "[不莫拒没未无沒無難难缺超空]|遗憾|信息|资料|证据|找|查",
}

COURTESIES = (
    r"^\W*(?:(?:i am |we are )?(?:very |so |truly |really )?(?:sorry|afraid)\b|apolog|my apologies|i apologi[sz]e|unfortunately\W*$|please\b|(?:could|can|would) you (?:please )?(?:provide|clarify|specify|share|tell|rephrase|give|confirm|explain|elaborate)|"
    r"if you (?:have|need|can|could|would|provide|want|share|let|give|tell|require|like|are)|let me know|is there anything|do you have any (?:other|further|more)|"
    r"feel free|do not hesitate|i (?:would|will|can) (?:be (?:happy|glad)|gladly|recommend|suggest|help|try|do my best)|i (?:recommend|suggest|advise|encourage)|happy to help|"
    r"you (?:may|might|could|can|should) (?:want to |need to |try to |try |wish to |also )?(?:check|checking|consult|contact|refer|look|visit|find|reach|search|ask|see|rephrase|provide)|"
    r"(?:for|to (?:get|find|obtain)) (?:more|further|specific|accurate|additional|precise|detailed|this|that|such)|thank|hope|(?:is there|how (?:else )?(?:can|may) i)|would you like|it (?:may|might|would) be (?:best|helpful|better)|"
    r"извин|прост(?:и|ите)\b|прошу прощения|сожалею|пожалуйста|если (?:у вас|вы|вам|хотите|нужн)|обратитесь|рекомендую|рекомендуем|советую|советуем|уточните|попробуйте|буду рад|спасибо|могу (?:ли )?(?:я )?(?:чем|помочь)|(?:вы )?можете (?:обратиться|уточнить|проверить|задать)|дайте знать|лучше (?:обратиться|уточнить)|предлагаю|для (?:более|получения)|задайте|"
    r"请(?:提供|您|联系|咨询|参考|查阅|告诉|尝试|重新|补充|随时|问|查看|访问|稍后|换)|請(?:提供|您|聯繫|諮詢|參考)|如果您|如需|若您|若需|如您|建议您|建议|您可以|您可|抱歉\W*$|对不起\W*$|不好意思\W*$|如有|欢迎|谢谢|感谢|希望|很乐意|我可以帮)"
)
"""Sentences that neither claim nor refuse: apologies, offers, pointers elsewhere."""

# The tokens that stand for these: what English refusals and courtesies cannot do without.
REFUSING = frozenset(
    "not t cannot no none nothing nowhere neither unable unclear unknown "
    "impossible insufficient inconclusive lack lacks lacked lacking silent beyond outside n unanswered "
    "unanswerable unstated unspecified unavailable missing absent fail fails failed limited omit omits "
    "omitted little ai need needs needed required necessary powerless struggle struggled vague incomplete "
    "difficult hard uncertain mute leave leaves decline declined declining".split()
) | frozenset(f"{word}t" for word in ("can", "won", "don", "doesn", "didn", "isn"))
"""One of these words is in every English sentence that a rule matches."""

COURTEOUS = frozenset(
    "hello hi hey greetings good welcome no glad nice goodbye bye see thanks i im we my sorry apology apologies apologize apologise apologizing please could can would if let is "
    "do don feel happy pleased have enjoy take all any anytime cheers you for to thank thanks hope hopefully hoping how it unfortunately".split()
)
"""One of these begins every English sentence of `COURTESIES`."""
