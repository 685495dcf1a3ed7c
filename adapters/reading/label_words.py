"""Words by which prompts in many languages name what they hold, as alternatives of a regular expression."""

from __future__ import annotations

import re

__all__ = [
    "ANSWER",
    "CONTEXT",
    "CONTEXT_CJK",
    "CONTEXT_INFLECTED",
    "CONTEXT_PLURAL",
    "HISTORY",
    "PASSAGE",
    "PASSAGES",
    "QUESTION",
    "QUESTION_LABEL",
    "RULES",
]

PASSAGE = (
    r"do[ck]umento?|doc|result|source|passage|chunk|context|hit|excerpt|snippet|article|extract|page|section|"
    r"note|item|entry|record|fact|paragraph|text|reference|evidence|"
    r"quelle|auszug|seite|extrait|fragmento|fuente|fonte|trecho|"
    r"документ|источник|фрагмент|отрывок|контекст|страница|(?:知识|文档|文本|参考)?(?:文档|资料|来源|片段|段落|文献|上下文)"
)
CONTEXT = (
    r"contexts?|documents?|docs|sources?|passages?|excerpts?|snippets?|knowledge(?:[ -]base)?|information|"
    r"references?|search results|retrieved (?:text|chunks|content)|chunks|facts|articles|extracts|evidence|"
    r"documentation|"
    r"контекст|документы|источники|фрагменты|выдержки|отрывки|сведения|база знаний|информация|материалы|"
    r"результаты? поиска|"
    r"上下文|参考资料|参考信息|参考内容|参考材料|资料|文档|知识库|背景知识|背景信息|已知信息|检索结果|检索内容|"
    r"知识片段|以下知识|相关知识|"
    r"kontext|dokumente|quellen|contexte|sources|documentos|fuentes|contexto|contesto|documenti|fonti|"
    r"auszüge|textstellen|fragmentos|extraits|trechos|"
    r"コンテキスト|文脈|文書|参考情報|参考資料|資料|ドキュメント|検索結果|문맥|컨텍스트|문서|"
    r"참고 ?자료|السياق|المستندات|المصادر|الوثائق|"
    r"ngữ cảnh|tài liệu|bağlam|belgeler|บริบท|เนื้อหา|เอกสาร|konteks|dokumen|kontekst|dokumenty|bronnen|"
    r"контексту|джерела|документи|sammanhang|konteksti|kontextus|πλαίσιο|প্রসঙ্গ|संदर्भ|दस्तावेज़|متن|اسناد|הקשר|מסמכים"
)
CONTEXT_PLURAL = re.sub(
    r"(documents|sources|passages|excerpts|snippets|references)\?", r"\1", CONTEXT
)
"""Of which one may stand before a passage of its own: ``Source: a.md``."""
PASSAGES = (
    r"documents|passages|excerpts|snippets|chunks|search results|articles|extracts|context|documentation|"
    r"catalog|catalogue|memories|knowledge(?: base)?|faqs?|материал(?:ы|ов)|баз[аы] знаний|"
    r"документ(?:ы|ов)|фрагмент(?:ы|ов)|выдерж(?:ки|ек)|отрыв(?:ки|ков)|"
    r"dokumente|auszüge|textstellen|documentos|fragmentos|trechos|extraits|documenti"
)
"""Of which more than the name may stand in a label."""
CONTEXT_INFLECTED = (
    rf"(?:{CONTEXT}|контекст\w*|документ\w*|фрагмент\w*|источник\w*|отрывк\w*|выдержк\w*|"
    r"материал\w*)"
)
CONTEXT_CJK = (
    r"(?:检索|搜索|召回|相关|参考|背景|已知|给定|文档|知识库?)[^\n:：。，、【】]{0,6}?"
    r"(?:片段|内容|资料|文档|信息|知识|结果|话题|文本|文献|材料|段落|条目)"
)
"""A label that need not stand alone on its line."""
QUESTION = (
    r"question|query|(?:user|customer) (?:asked|asks|says)|(?:最新|用户|客户)消息|"
    r"user input|(?:user|customer|current)(?:['’]s)? message|input|"
    r"request|frage|вопрос|запрос|问题是?|提问|用户问题|"
    r"pregunta|pergunta|domanda|質問|질문|السؤال|câu hỏi|soru|คำถาม|pertanyaan|pytanie|vraag|"
    r"питання|запитання|въпрос|otázka|fråga|spørsmål|spørgsmål|kysymys|kérdés|întrebare|pitanje|ερώτηση|"
    r"प्रश्न|প্রশ্ন|سوال|سؤال|השאלה|שאלה"
)
QUESTION_LABEL = (
    r"(?:(?:the|my|user(?:['’]?s)?|current|original|actual)[ _])*"
    rf"(?:{QUESTION})(?: is| пользователя| клиента| d(?:o|el|e l['’]) ?[cu]\w+)?"
)
ANSWER = (
    r"(?:\w+ ){0,2}answer|response|reply|ответ|回答|答案|"
    r"antwort|réponse|respuesta|resposta|risposta|답변|الإجابة|الجواب"
)
HISTORY = (
    r"(?:(?:chat|conversation|dialog|dialogue) )?history|previous (?:conversation|messages)|"
    r"история (?:диалога|разговора|чата|беседы|сообщений)|"
    r"对话历史|聊天记录|历史对话|会話履歴|대화 ?(?:기록|이력)"
)
RULES = (
    r"(?:\w+ )?(?:rules|guidelines|requirements|notes?|tone|style|role|persona|format)|правила|важно|"
    r"требования[^\n:]{0,30}|формат[^\n:]{0,30}|стиль|роль|"
    r"(?:重要|回答)?(?:规则|要求)|注意(?:事项)?|角色设定|输出格式|ルール|규칙"
)
