"""Words that are names in one place and everyday words in another: may, apple, roman, роман.

`names` and `named_entities` read them.  All are casefolded, with е for ё.  The lists are short on
purpose: in a text that uses capitals the capital decides, and only where it can't do they.
"""

from .stems import STOP_WORDS

__all__ = [
    "ASKING",
    "COMMON",
    "MATERIAL",
    "NAMES",
    "NOT_NAMES",
    "OPENERS",
    "ORDINALS",
    "SUBJECTS",
    "TITLES",
]

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
    "microsoft google facebook netflix wikipedia samsung toyota volkswagen nasa unesco tesla siemens "
    "galileo copernicus kepler gandhi mandela churchill stalin lenin picasso rembrandt michelangelo "
    "goethe kant plato aristotle socrates hitler roosevelt kennedy obama putin jakarta dhaka karachi "
    "lagos addis kabul tehran riyadh dubai bogota caracas quito lima managua reykjavik bratislava "
    "ljubljana zagreb sarajevo skopje sofia bucharest minsk riga vilnius tallinn baku tbilisi yerevan "
    "tashkent astana bern bonn dresden leipzig cologne frankfurt stuttgart naples turin florence "
    "marseille lyon bordeaux toulouse seville valencia bilbao porto antwerp rotterdam utrecht "
    "gothenburg bergen aarhus krakow gdansk manchester liverpool birmingham leeds glasgow edinburgh "
    "belfast cardiff seattle detroit dallas houston denver miami atlanta baltimore pittsburgh "
    "vancouver ottawa quebec perth brisbane adelaide auckland christianity islam judaism buddhism "
    "hinduism catholicism judea gaul prussia bavaria saxony catalonia andalusia normandy brittany "
    "tibet kashmir manchuria jupiter neptune uranus pluto javascript postgresql linux android "
    "австралия австрия азия америка англия аргентина армения африка афины белоруссия беларусь бельгия "
    "берлин болгария бразилия британия варшава ватикан великобритания вена венгрия венеция вьетнам "
    "германия греция грузия дания европа египет женева израиль индия индонезия ирак иран ирландия "
    "исландия испания италия казахстан казань канада каир киев китай корея куба латвия ленинград "
    "литва лондон мадрид мексика минск монголия москва мюнхен нидерланды новосибирск норвегия "
    "пакистан париж пекин перу польша португалия прага рим россия румыния самара сербия сибирь "
    "сингапур сирия словакия стамбул стокгольм таиланд токио турция украина финляндия франция хельсинки "
    "эйнштейн ньютон дарвин шекспир моцарт бах бетховен галилей коперник кеплер наполеон вашингтон "
    "линкольн черчилль гитлер гете кант платон аристотель пикассо рембрандт микеланджело менделеев "
    "ломоносов королев гагарин толстой лермонтов тургенев некрасов булгаков чайковский шостакович "
    "рахманинов мусоргский репин айвазовский суворов кутузов ельцин горбачев хрущев брежнев путин "
    "байкал днепр дунай рейн темза нил амазонка енисей обь иртыш кама ладога эверест эльбрус альпы "
    "сахара сибирь крым чечня татарстан башкирия якутия камчатка сахалин джакарта дели мумбаи бангкок "
    "тегеран багдад дамаск иерусалим кабул ташкент баку тбилиси ереван рига вильнюс таллин "
    "стокгольм осло копенгаген брюссель амстердам лиссабон бухарест будапешт белград загреб "
    "ростов волгоград краснодар воронеж саратов тюмень омск томск красноярск иркутск хабаровск "
    "владивосток мурманск архангельск псков ярославль владимир суздаль смоленск калининград сочи "
    "яндекс газпром сбербанк роснефть лукойл росатом роскосмос аэрофлот "
    "хорватия чехия чили швейцария швеция эстония япония пушкин достоевский ленин сталин гоголь чехов "
    "иван петр александр алексей андрей антон борис виктор владимир дмитрий евгений елена екатерина "
    "игорь ирина константин мария михаил наталья николай ольга павел сергей татьяна федор юрий".split()
)
"""Names that are hardly ever anything else, in their basic form."""

NOT_NAMES = STOP_WORDS | frozenset(
    "yes no i'm i've i'll i'd mr mrs mr. mrs. ms dr also however because since although while when where "
    "why how what all many several both only even once first second third finally thus therefore "
    "according today yesterday tomorrow now later earlier recently currently meanwhile moreover "
    "furthermore nevertheless nonetheless instead despite unlike like without within upon among "
    "amongst through throughout until unless whether every another few much less own same two three "
    "four five six seven eight nine ten one half around near above below across along behind beyond "
    "besides except inside outside per plus toward towards via whereas yet still just never always "
    "often sometimes perhaps maybe please let see note here hence him me us them himself herself "
    "itself themselves mine yours theirs nor neither either nothing something everything anything "
    "nobody somebody everyone anyone together based built founded born located known named "
    "people scientists "
    "да нет это этот эта эти он она оно они мы вы я ты его её их в на по при но а и если когда затем "
    "после до для как так там тогда однако что кто где почему также из от за под над без через у к с "
    "о об не во со ко ее ему ей им ним них нем ней себя свой своя свои все всё весь вся многие "
    "некоторые каждый каждая один одна одно первый первая второй вторая третий вчера сегодня завтра "
    "позже ранее раньше теперь сейчас здесь поэтому кроме среди согласно благодаря именно этого этой "
    "этом этому того той тем тот та те то был была было были есть будет хотя либо или ни даже уже еще "
    "ещё только лишь между перед около вокруг вместо несмотря впоследствии вскоре наконец впервые "
    "сначала потом кстати например поскольку потому чтобы чем чей какой какая который которая сам сама "
    "сколько зачем куда откуда спасибо пожалуйста "
    "monday tuesday wednesday thursday friday saturday sunday "
    "понедельник вторник среда четверг пятница суббота воскресенье".split()
)
"""Capitalised words that are no names: what opens sentences, days of the week."""

ORDINALS = frozenset(
    "первый первая первого первой второй вторая второго третий третья третьего четвертый пятый the".split()
)
"""What can follow in a name and opens sentences elsewhere: Екатерина Вторая, Alexander the Great."""

OPENERS = frozenset(
    "use press install click open contact see run add set select choose enter go make take check visit "
    "find follow read write call ask try keep put turn remove delete create update download save send "
    "start stop close build configure enable disable restart reset ensure remember consider compare "
    "give get tell show explain describe list name enjoy join learn meet "
    "length height depth width area population capital president "
    "длина ширина глубина высота площадь цена история часть большинство число количество сборная "
    "команда власти жители дочь сын жена муж брат сестра отец мать студент студенты ученые ученые "
    "население столица территория стоимость температура мэр губернатор глава посол "
    "откройте нажмите выберите зимой летом весной осенью утром вечером".split()
)
"""Verbs and nouns that open sentences, capitalised, before a name."""

TITLES = frozenset(
    "mr mrs ms dr prof professor president senator captain author writer scientist physicist poet "
    "chancellor minister version chapter section figure table page step article question "
    "город река поэт поэтесса писатель писательница президент король королева император императрица "
    "художник художница композитор ученый учёный физик химик математик философ академик профессор князь "
    "княгиня царь царица генерал маршал адмирал министр директор основатель автор инженер архитектор "
    "остров озеро гора село деревня поселок посёлок область республика улица площадь проспект станция "
    "завод компания фирма корпорация университет институт театр музей журнал газета фильм роман книга "
    "певец певица актер актёр актриса режиссер режиссёр футболист спортсмен чемпион государство страна "
    "столица штат провинция врач доктор летчик лётчик космонавт полковник капитан святой собор храм "
    "мост башня дворец крепость группа песня опера балет картина поэма повесть рассказ программист "
    "компании организация партия братья братьев сестры поезд приставка самолет самолёт корабль журналист "
    "телефон смартфон автомобиль ракета спутник планета звезда клуб команда сервис программа язык "
    "адвокат судья тренер игрок герой героиня лидер глава мэр посол граф барон герцог принц принцесса".split()
)
"""What stands before a name, capitalised where it opens the sentence, and is no part of it."""

MATERIAL = frozenset(
    "water oxygen hydrogen carbon nitrogen iron gold silver copper love research education music time "
    "money light energy food health history science art war peace life death coffee tea rice sugar "
    "salt blood air fire earth work sleep exercise evidence information language law knowledge weather "
    "climate pollution deforestation photosynthesis gravity electricity heat sound software hardware "
    "machine data memory traffic tourism agriculture religion philosophy mathematics physics chemistry "
    "biology economics politics medicine surgery football chess basketball tennis construction part "
    "work progress production development growth inflation unemployment poverty nature rain snow wind "
    "ice steam steel glass wood paper plastic oil gas coal cotton wool silk milk bread wine beer meat "
    "fish cheese butter honey chocolate admission entry access support retrieval precision recall "
    "nothing everything something nobody somebody everyone".split()
)
"""Nouns that open English sentences without an article, and so look like names."""
