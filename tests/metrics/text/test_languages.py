"""The language of a text, as far as script and small words tell."""

import pytest

from ragmeter.metrics.text.languages import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I install the package?", "en"),
        ("What do I do if I smell gas?", "en"),
        ("docker install error 137", "en"),
        ("Как установить пакет?", "ru"),
        ("ошибка установки docker compose 2.1", "ru"),
        ("Як встановити пакет і що це?", "uk"),
        ("如何安装 Docker？", "zh"),
        ("Docker のインストール方法は？", "ja"),
        ("도커 설치 방법", "ko"),
        ("Wie installiere ich das Paket?", "de"),
        ("Comment installer le paquet ?", "fr"),
        ("¿Cómo instalo el paquete?", "es"),
        ("Come si installa il pacchetto?", "it"),
        ("Como posso instalar o pacote?", "pt"),
        ("Hoe installeer ik het pakket?", "nl"),
        ("Jak zainstalować pakiet i gdzie jest?", "pl"),
        ("Paket nasıl kurulur?", "tr"),
        ("Hur installerar jag paketet?", "sv"),
        ("كيف أثبت الحزمة؟", "ar"),
        ("पैकेज कैसे स्थापित करें?", "hi"),
        ("Πώς εγκαθιστώ το πακέτο;", "el"),
        ("12 + 30 = ?", None),
        ("", None),
    ],
)
def test_language(text, language):
    assert language_of(text) == language


def test_a_long_text_is_read_in_part():
    assert language_of("это " * 500 + "the of and " * 100_000) == "ru"
