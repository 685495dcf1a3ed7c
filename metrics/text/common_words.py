"""Words that are names in one place and everyday words in another: may, apple, roman, роман.

`names` and `named_entities` read them.  All are casefolded, with е for ё.  The lists are short on
purpose: in a text that uses capitals the capital decides, and only where it can't do they.
"""

__all__ = ["ASKING", "COMMON", "NAMES", "SUBJECTS"]

COMMON = frozenset(
    # English: words that are also names of people, companies, products, places, works.
    "who us it is in an am pm as at be do go he if me my no of on or so to up we all and are can "
    "did for get had has her him his how its let may not now old one our out own see she the too "
    "two use was way why you "
    "aids alexa alien amazon angel apple apples arm art ash atlas august autumn baker bath bear "
    "beetle bell berry bill bird black blade blaze block bloom blue board bolt bond book books boot "
    "bot bow box bridge bronze brook brown buck bush butler cage camel canvas carbon carpenter "
    "castle cat center central chamber chance chase cheddar chef chip chrome church city claim "
    "clay cliff cloud coach coal cobalt coffee cold cole college cone cook cooper copper coral "
    "cork corn country court cradle crane cream creek crow crown cube cup dash dawn day dean deal "
    "deep delta dial diamond dick doc dog door dove down dragon drake drew drive duke dutch eagle "
    "earl early earth east easy echo eden edge elder element engine english ever excel express "
    "fable face faith falcon farm father field fiddle fig finch fire fisher flash flint flora "
    "flower forest forge ford fort forum fox frank freedom frost future gap garden gates gem gene "
    "general ghost ginger glass globe go gold golden goodwill gopher grace grand grant gray great "
    "green grey grid grove guardian guide gulf hall ham happy harbor harbour hardy haven hawk "
    "hazel head heart heath heather heaven hedge hell herald heritage high hill hive holly home "
    "hood hook hope horizon horn house hub hunt hunter ice imp impact independent intel iris iron "
    "island ivy jack jade jam jar jasmine java jay jerry jet jewel job jobs john joker journal joy "
    "judge june junior jupiter just justice kay key keynote king kit kite knight lake lamb lambda "
    "lane lark lasso law leaf leap legend level liberty light lily lime lion little live lock lodge "
    "long lotus love luck lush lynx mac mail major mango maple march mark marina market mars mason "
    "master mat match matter max meadow medium mercury mercy meta metro mia mid mike mill miller "
    "mine mint minor mirror mission mist mobile modern monitor moon moore moss mother mount mountain "
    "mouse muse nation national nature nest new news nice night noble node noon north notion nova "
    "numbers oak oasis object observer ocean office olive opal open opera oracle orange orb orchard "
    "order orient origin outlook owl pace pacific page pages palm pan panda panther park parker part "
    "parcel parrot pat patience patch peace peach pearl pen penny people pepper percy perl phoenix "
    "pilot pine pink pioneer pipe pitch pixel place plain plane planet plum plus pocket point polish "
    "polo pool poppy port porter post potter power pride prime prince princess prism prudence public "
    "puma purple puppet python queen quest rain rainbow ram random ranger raven ray reader reading "
    "real red redwood reed relay rich ridge ring ripple river road robin rock rocket roman romance "
    "roof root rose royal ruby rush rusty rust ruth safari sage salesman salt sand sandy saturn "
    "scala scout scratch sea seal season second segment senate sentinel series seven shadow shark "
    "shell shepherd ship shore short sigma signal silver simple singer sister six skip sky skype "
    "slack slate slide smart smith snap snow solar sole sonic soul south space spark sparrow spectrum "
    "spider spirit splash spotlight spring sprint square squire stage stamp stand standard star state "
    "states station steel stella stem stern stone storm story stream street stripe sub subway "
    "summer summit sun sunday sunny sunrise super supreme surface surge swallow swan sweet swift "
    "switch sword table tailor tally tan tank target taylor teal team temple ten tender term "
    "thrive thunder tide tiger time times titan toast today tom tower town trace trader trail train "
    "transit travel tree trek trello tribune trinity triumph true trump trust tube turkey turner twin "
    "twist uncle union united universe valley vanguard vault velvet venture verse very victor victory "
    "view village vine viola violet virgin virtue vision vista visa volt wade walker wall ward warm "
    "warner wave way weaver web wells west wheel whisper white whole wicked wide wild will willow wind "
    "window windows wine wing winner winter wire wish wolf wonder wood woods woody word words work "
    "workday world wren wright yahoo yellow young zebra zen zero zion zone zoom monday tuesday "
    "wednesday thursday friday saturday april china chinas jordan georgia chad swede turkeys "
    # Russian.
    "вера надежда любовь роман лев слава роза лилия майя мая май мир свет заря победа волга правда "
    "известия труд искра луна земля солнце марс венера сатурн юпитер меркурий орел тула пушка король "
    "королев волк волков заяц кузнец мельник бондарь гончар ткач коваль соловей воробей голубь сокол "
    "коза козел баран щука карась лебедь журавль сорока ворона гусь мороз снег зима весна лето осень "
    "март август гром молния туча ветер дым огонь камень гора река море озеро остров лес поле луг сад "
    "дуб береза клен липа рябина калина малина черника яблоко вишня слива груша красный красная "
    "красное белый белая белое черный черная черное зеленый зеленая синий желтый голубой золотой "
    "золотая серебряный большой большая малый малая новый новая старый старая великий великая верхний "
    "нижний северный южный западный восточный дальний ближний тихий главный первый вторая "
    "центральный народный свободный добрый храбрый толстой толстый горький бедный веселый грозный "
    "крепкий мягков шумный сильный вольный мост башня площадь улица дом дворец театр город храм "
    "церковь музей воз нато мид рак рыба рыбы дева весы стрелец козерог водолей телец овен близнецы "
    "скорпион ока иж дон кум кама лена нева мир союз восток запад север юг аврора муза лира нива "
    "спутник маяк огонек знамя звезда спартак динамо зенит торпедо шахтер урал кавказ мать отец "
    "вор вол сам он она их нас нам им ее его как так что кто где".split()
)
"""Everyday words that are also names."""

ASKING = frozenset("may will can who it us is are am do did has had have mark let".split())
"""Words that open questions and requests, and are names as well."""

SUBJECTS = frozenset(
    "i we you he she it they the this that these those my your his her our their there a an any "
    "god is are was were had has not be have".split()
)
"""What follows a word of `ASKING` that is none."""

NAMES = frozenset(
    # Countries, and cities that are in many texts: names in any case and at any place.
    "afghanistan africa albania algeria america amsterdam angola antarctica argentina armenia asia "
    "athens australia austria azerbaijan baghdad bangkok bangladesh barcelona beijing belarus belgium "
    "belgrade berlin bolivia boston brasilia brazil britain brussels budapest bulgaria cairo "
    "california cambodia canada chicago chile colombia copenhagen croatia cuba cyprus "
    "delhi denmark dublin ecuador egypt england estonia ethiopia europe finland florida france geneva "
    "germany ghana greece greenland hamburg hanoi havana helsinki hungary iceland india indonesia iran "
    "iraq ireland israel istanbul italy jakarta japan jerusalem kazakhstan kenya kyiv kyoto "
    "kuwait latvia lebanon libya lisbon lithuania london luxembourg madrid malaysia manila "
    "melbourne mexico milan mongolia montreal morocco moscow mumbai munich myanmar nairobi "
    "nepal netherlands nigeria norway osaka oslo pakistan panama paraguay paris peru philadelphia "
    "philippines poland portugal prague qatar romania rome russia rwanda scandinavia scotland seoul "
    "serbia shanghai siberia singapore slovakia slovenia somalia spain stockholm sudan sweden "
    "switzerland sydney syria taiwan tanzania texas thailand tokyo toronto tunisia uganda ukraine "
    "uruguay uzbekistan venezuela venice vienna vietnam warsaw wales washington yemen zambia zimbabwe "
    "zurich austrian einstein newton shakespeare mozart beethoven darwin napoleon lincoln "
    "microsoft google facebook netflix wikipedia samsung toyota volkswagen "
    "австралия австрия азия америка англия аргентина армения африка афины белоруссия беларусь бельгия "
    "берлин болгария бразилия британия варшава ватикан великобритания вена венгрия венеция вьетнам "
    "германия греция грузия дания европа египет женева израиль индия индонезия ирак иран ирландия "
    "исландия испания италия казахстан казань канада каир киев китай корея куба латвия ленинград "
    "литва лондон мадрид мексика минск монголия москва мюнхен нидерланды новосибирск норвегия "
    "пакистан париж пекин перу польша португалия прага рим россия румыния самара сербия сибирь "
    "сингапур сирия словакия стамбул стокгольм таиланд токио турция украина финляндия франция хельсинки "
    "хорватия чехия чили швейцария швеция эстония япония пушкин достоевский ленин сталин гоголь чехов "
    "иван петр александр алексей андрей антон борис виктор владимир дмитрий евгений елена екатерина "
    "игорь ирина константин мария михаил наталья николай ольга павел сергей татьяна федор юрий".split()
)
"""Names that are hardly ever anything else, in their basic form."""
