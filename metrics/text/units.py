"""Spellings of units, currencies and powers of ten in English, Russian and Chinese.

`quantities` alone reads them.  Entries are casefolded and lack a last full stop.  A canonical name
stands for all languages, so ``5 km`` is ``5 километров`` and ``5公里``; nothing is converted.
"""

import re

__all__ = [
    "PREFIX",
    "PREFIX_ENDS",
    "SCALE",
    "SCALES",
    "UNIT",
    "UNIT_STARTS",
    "scale_of",
    "units_of",
]

_SPELLINGS = {
    "%": "% percent per_cent pct процент процента проценту процентов процентам процентами проц",
    "‰": "‰ per_mille промилле",
    "pp": "percentage_points percentage_point процентных_пункта процентных_пунктов п.п "
    "процентный_пункт 个百分点 百分点",
    "$": "$ dollar dollars u.s._dollar u.s._dollars us_dollar us_dollars american_dollars usd "
    "доллар доллара доллару доллары долларов долларам долларах доллар_сша доллара_сша "
    "долларов_сша 美元 美金",
    "€": "€ euro euros eur евро 欧元 歐元",
    "£": "£ pound_sterling pounds_sterling british_pounds gbp pound pounds quid фунт фунта фунтов "
    "фунт_стерлингов фунта_стерлингов фунтов_стерлингов 英镑 英鎊",
    "jpy": "¥ yen jpy иена иены иен йена йены йен 日元 日圆 日圓",
    "cny": "¥ yuan cny rmb renminbi юань юаня юани юаней 元 人民币 元人民币 块钱",
    "₽": "₽ rouble roubles ruble rubles rub руб рубль рубля рублю рублей рублям рублями р 卢布",
    "₹": "₹ rupee rupees inr рупия рупии рупий 卢比",
    "₩": "₩ korean_won krw 韩元",
    "chf": "chf swiss_francs swiss_franc 瑞士法郎",
    "cent": "¢ cent cents цент цента центов 美分",
    "kopek": "kopek kopeks kopecks копейка копейки копеек коп",
    "km": "km kms kilometre kilometres kilometer kilometers км километр километра километру "
    "километре километры километров километрах километрам 公里 千米",
    "m": "m metre metres meter meters м метр метра метру метре метры метров метрах метрам 米 公尺",
    "cm": "cm centimetre centimetres centimeter centimeters см сантиметр сантиметра сантиметров "
    "厘米 公分",
    "mm": "mm millimetre millimetres millimeter millimeters мм миллиметр миллиметра миллиметров "
    "毫米",
    "μm": "μm micron microns micrometre micrometres micrometer micrometers мкм микрон микрона "
    "микронов микрометр микрометров 微米",
    "nm": "nm nanometre nanometres nanometer nanometers нм нанометр нанометра нанометров 纳米",
    "mile": "mile miles mi миля мили миль милях 英里",
    "ft": "ft foot feet фут фута футов футах 英尺",
    "inch": "inch inches дюйм дюйма дюймов 英寸",
    "yd": "yd yard yards ярд ярда ярдов 码",
    "ly": "light-year light-years light_year light_years световых_лет световых_года световой_год "
    "光年",
    "km2": "km2 sq_km sq._km square_km square_kilometre square_kilometres square_kilometer "
    "square_kilometers км2 кв_км кв._км квадратный_километр квадратных_километра "
    "квадратных_километров 平方公里 平方千米",
    "m2": "m2 sq_m sq._m square_metre square_metres square_meter square_meters м2 кв_м кв._м "
    "квадратный_метр квадратных_метра квадратных_метров 平方米",
    "sqmi": "sq_mi square_mile square_miles квадратных_миль квадратные_мили 平方英里",
    "sqft": "sq_ft square_foot square_feet квадратных_футов 平方英尺",
    "ha": "ha hectare hectares га гектар гектара гектаров 公顷",
    "acre": "acre acres акр акра акров 英亩",
    "m3": "m3 cubic_metre cubic_metres cubic_meter cubic_meters м3 куб_м куб._м кубический_метр "
    "кубических_метра кубических_метров 立方米",
    "km3": "km3 cubic_kilometres cubic_kilometers км3 кубических_километров 立方公里",
    "kg": "kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes кг килограмм килограмма "
    "килограммов 公斤 千克",
    "g": "g gram grams gramme grammes г гр грамм грамма граммов 克",
    "mg": "mg milligram milligrams мг миллиграмм миллиграмма миллиграммов 毫克",
    "t": "t tonne tonnes ton tons metric_tons metric_ton т тонна тонны тонну тонн 吨",
    "lb": "lb lbs pound pounds фунт фунта фунтов 磅",
    "oz": "oz ounce ounces унция унции унций 盎司",
    "l": "l litre litres liter liters л литр литра литров 升 公升",
    "ml": "ml millilitre millilitres milliliter milliliters мл миллилитр миллилитра миллилитров "
    "毫升",
    "gal": "gal gallon gallons галлон галлона галлонов 加仑",
    "bbl": "bbl barrel barrels баррель барреля баррелей 桶",
    "ms": "ms millisecond milliseconds мс миллисекунда миллисекунды миллисекунд 毫秒",
    "s": "s sec secs second seconds сек секунда секунды секунду секунд 秒 秒钟",
    "min": "min mins minute minutes мин минута минуты минуту минут 分钟",
    "h": "h hr hrs hour hours ч час часа часов 小时 个小时 钟头",
    "day": "day days день дня дней сут сутки суток 天",
    "week": "week weeks неделя недели неделю недель 周 星期 个星期",
    "month": "month months месяц месяца месяцев мес 个月",
    "year": "year years yr yrs год года лет летие летия 年 周年 岁",
    "decade": "decade decades десятилетие десятилетия десятилетий",
    "°": "° degree degrees градус градуса градусов 度",
    "°c": "°c degrees_celsius degrees_centigrade degree_celsius градус_цельсия "
    "градуса_цельсия градусов_цельсия 摄氏度",
    "°f": "°f degrees_fahrenheit градусов_фаренгейта 华氏度",
    "km/h": "km/h kph kmh km_per_hour kilometres_per_hour kilometers_per_hour км/ч "
    "километров_в_час километра_в_час 公里每小时 公里/小时 千米每小时",
    "mph": "mph miles_per_hour миль_в_час 英里每小时",
    "m/s": "m/s metres_per_second meters_per_second м/с метров_в_секунду метра_в_секунду "
    "米每秒 米/秒",
    "w": "w watt watts вт ватт 瓦 瓦特",
    "kw": "kw kilowatt kilowatts квт киловатт 千瓦",
    "mw": "mw megawatt megawatts мвт мегаватт 兆瓦",
    "gw": "gw gigawatt gigawatts гвт гигаватт 吉瓦",
    "kwh": "kwh kilowatt-hour kilowatt-hours kilowatt_hours квт·ч квт-ч квтч киловатт-часов "
    "千瓦时 度电",
    "mwh": "mwh megawatt-hours megawatt_hours мвт·ч мегаватт-часов 兆瓦时",
    "twh": "twh terawatt-hours terawatt_hours твт·ч 太瓦时",
    "v": "v volt volts вольт 伏 伏特",
    "hz": "hz hertz гц герц 赫兹",
    "khz": "khz kilohertz кгц килогерц 千赫",
    "mhz": "mhz megahertz мгц мегагерц 兆赫",
    "ghz": "ghz gigahertz ггц гигагерц 吉赫",
    "kb": "kb kilobyte kilobytes кб килобайт 千字节",
    "mb": "mb megabyte megabytes мб мегабайт 兆字节",
    "gb": "gb gigabyte gigabytes гб гигабайт 吉字节",
    "tb": "tb terabyte terabytes тб терабайт 太字节",
    "byte": "byte bytes байт 字节",
    "bit": "bit bits бит 比特",
    "j": "j joule joules дж джоуль джоулей 焦耳",
    "kcal": "kcal kilocalorie kilocalories ккал килокалорий 千卡 大卡",
    "cal": "cal calorie calories кал калория калории калорий 卡路里",
    "pa": "pascal pascals паскаль паскалей 帕",
    "hp": "hp horsepower л.с лошадиных_сил 马力",
    "px": "px pixel pixels пиксель пикселя пикселей 像素",
}
_UNITS: dict[str, frozenset[str]] = {}
for _name, _line in _SPELLINGS.items():
    for _spelling in _line.split():
        _spelled = _spelling.replace("_", " ")
        _UNITS[_spelled] = _UNITS.get(_spelled, frozenset()) | {_name}

_SCALES = {
    2: "hundred 百",
    3: "thousand thousands k тыс тысяча тысячи тысячу тысяч тысячам тысячах 千",
    4: "万 萬",
    5: "十万 十萬 lakh",
    6: "million millions mln mn млн миллион миллиона миллиону миллионы миллионов миллионам "
    "миллионах 百万 百萬",
    7: "千万 千萬 crore",
    8: "亿 億",
    9: "billion billions bn bln млрд миллиард миллиарда миллиарды миллиардов миллиардах 十亿 十億",
    10: "百亿",
    11: "千亿",
    12: "trillion trillions trn tn трлн триллион триллиона триллионы триллионов 万亿 萬億",
}
_POWERS = {word: power for power, line in _SCALES.items() for word in line.split()}
_POWERS |= {"m": 6, "b": 9, "t": 12}  # after a sign of currency only
_HAN_LETTER = "\u3400-\u9fff"


def _alternatives(words: "list[str]") -> str:
    # The longest first.  A word that ends with a letter other than Han ends at a word's border.
    ordered = sorted(words, key=lambda word: (-len(word), word))
    bordered = [w for w in ordered if w[-1].isalnum() and not re.match(f"[{_HAN_LETTER}]", w[-1])]
    free = [w for w in ordered if w not in set(bordered)]
    return (
        rf"(?:(?:{'|'.join(map(re.escape, bordered))})(?![^\W{_HAN_LETTER}])"
        rf"|(?:{'|'.join(map(re.escape, free))}))"
    )


UNIT = re.compile(rf"[ -]?({_alternatives(list(_UNITS))})\.?")
"""A unit after a number, in group 1."""

SCALE = re.compile(
    rf"[ -]?({_alternatives([word for word in _POWERS if len(word) > 1 or word not in 'mbt'])})"
    rf"\.?|([mbt])(?![^\W{_HAN_LETTER}])"
)
"""A power of ten after a number, in group 1; one that follows money only, in group 2."""

SCALES = frozenset(
    before + word
    for word in _POWERS
    for before in ("", " ", "-")
    if not before or len(word) > 1 or word not in "mbt"
)
"""What `SCALE` finds of ASCII letters, with the space or hyphen before it."""

PREFIX = re.compile(
    r"(?:(?P<sign>-|minus |минус |零下|负)?"
    r"(?P<unit>us\$|u\.s\. ?\$|a\$|au\$|c\$|ca\$|hk\$|nt\$|[$€£¥₽₹₩]|(?:usd|eur|gbp|jpy|cny|rmb|rub) )? ?"
    r"(?P<inner>-)?)\Z"
)
"""What stands before a number and belongs to it."""

PREFIX_ENDS = (
    *"-$€£¥₽₹₩",
    *("minus", "минус", "零下", "负"),
    *("usd", "eur", "gbp", "jpy", "cny", "rmb", "rub"),
)
"""How every `PREFIX` ends, spaces aside."""

UNIT_STARTS = frozenset(
    re.split("[^a-z]", spelling, maxsplit=1)[0] for spelling in (*_UNITS, *_POWERS)
)
"""The Latin letters with which every `UNIT` and `SCALE` begins, up to the first other character."""

_PREFIXED = {"us$": "$", "u.s.$": "$", "a$": "aud", "au$": "aud", "c$": "cad", "ca$": "cad"}


def units_of(spelling: str) -> frozenset[str]:
    """Return the canonical names of a unit's spelling, several for ``pounds`` and ``¥``."""
    word = spelling.strip()
    known = _UNITS.get(word)
    if known is not None:
        return known
    plain = word.replace(" ", "")
    return frozenset((_PREFIXED.get(plain, plain),))


def scale_of(spelling: str) -> int:
    """Return the power of ten that a word stands for."""
    return _POWERS[spelling]
