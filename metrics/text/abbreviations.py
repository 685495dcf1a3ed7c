"""Word lists behind the sentence rules: abbreviations and words that open sentences.

`sentences` and `layout` read them.  Entries are casefolded and lack their last full stop.
"""

__all__ = ["ENDS_IF_CAPITAL", "NEVER_ENDS", "NEVER_LAST", "NUMBER_WORDS", "STARTERS"]

NEVER_ENDS = frozenset(
    # English titles and references: something always follows.
    "dr mr mrs ms prof rev hon gen col maj capt lt sgt cpl gov sen rep pres st mt messrs mme mlle "
    "fig figs eq eqs sec ch pp vol vols ed eds cf viz vs approx ca e.g i.e eg ie esp "
    # Russian: titles, places and pointers that take a name, a number or an explanation.
    "т.е т.к т.н ул пл просп пер д им проф акад доц канд стр рис табл см ср напр св оз пос дер обл "
    "корп кв гл ст пп тт м-р г-н г-жа гос тов зам зав гр т е к н с п о р ф г гг в вв м л".split()
)
"""A full stop after these never ends a sentence."""

ENDS_IF_CAPITAL = frozenset(
    "etc inc ltd co corp jr sr al no nos dept univ ave blvd rd bros est ph.d m.d b.a m.a "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun min max "
    # Russian: what can stand at the end of a sentence as well as inside.
    "др пр т.д т.п н.э руб коп тыс млн млрд трлн кг км мм га сек мин час экз чел "
    "янв февр апр авг сент окт нояб дек".split()
)
"""A full stop after these ends a sentence only when a capital letter follows."""

NUMBER_WORDS = frozenset("г гг в вв см т с р к п м л".split())
"""After a number these are years, centuries and units, and end a sentence before a capital."""

STARTERS = frozenset(
    "The A An It He She They We You I This That These Those There In On At For But And So If When "
    "While After Before As Its His Her Their Our My However Then What Why How Who Where "
    "Это Эта Этот Эти Он Она Оно Они Мы Вы В На По При Но А И Если Когда Затем После До Для Как "
    "Так Там Тогда Однако Его Её Ее Их Что Кто Где Почему Также".split()
)
"""Words that open a sentence more often than they follow an initial."""

NEVER_LAST = frozenset(
    "a an the of to in on at by for and or with as from into than about over under between during "
    "if that which who whose but nor is are was were be has have had "
    "в во на с со и к ко о об у по за из от для до не но а или что как при под над без через между "
    "перед про это".split()
)
"""Words that a title, a list entry or another line complete in itself does not end with."""
