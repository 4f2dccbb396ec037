"""Detectors of personal data and secrets."""

import functools
import re
from typing import TYPE_CHECKING

from headrace.gateway.filter.detectors.pattern_detector import PatternDetector

if TYPE_CHECKING:
    from headrace.gateway.filter.detectors.places.likely_places import FindPlaces

_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "CH": 21,
    "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18,
    "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23,
    "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20, "LU": 20, "LV": 21,
    "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28,
    "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24,
    "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
"""Characters of an IBAN, by country (ISO 13616)."""
_NO_WORD_BEFORE = r"(?![^\W_])"
"""End of a tail, which is read backward, that no word continues before."""
_NOT_ALPHANUMERIC = re.compile(r"[^0-9A-Z]")
_MIN_PHONE_DIGITS = 8
"""Digits of a telephone number with the code of its country (ITU-T E.164)."""
_MIN_LOCAL_DIGITS = 9
"""Digits of one without it: dates have as many as eight."""


def _card_length(text: str) -> int:
    """Checks the last digit of a card number (ISO/IEC 7812, Luhn)."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return len(text) if (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 and any(digits) else 0


def _iban_length(text: str) -> int:
    """Checks an IBAN (ISO 13616, ISO 7064 mod 97-10), which may be followed by other words."""
    wanted, count = _IBAN_LENGTHS.get(text[:2], 0), 0
    for index, character in enumerate(text):
        count += character != " "
        if count == wanted:
            plain = _NOT_ALPHANUMERIC.sub("", text[: index + 1])
            number = "".join(str(int(character, 36)) for character in plain[4:] + plain[:4])
            return index + 1 if int(number) % 97 == 1 else 0
    return 0


def _phone_length(text: str) -> int:
    least = _MIN_PHONE_DIGITS if text[0] == "+" else _MIN_LOCAL_DIGITS
    return len(text) if sum(map(str.isdigit, text)) >= least else 0


# Imported when a long text is first searched: they need numpy, which takes a moment and 20 MB.
def _card_places() -> "FindPlaces":
    from headrace.gateway.filter.detectors.places.card_places import card_places

    return card_places


@functools.cache
def _iban_places() -> "FindPlaces":
    from headrace.gateway.filter.detectors.places.iban_places import IbanPlaces

    return IbanPlaces(_IBAN_LENGTHS)


def _email_places() -> "FindPlaces":
    from headrace.gateway.filter.detectors.places.email_places import email_places

    return email_places


def _phone_places() -> "FindPlaces":
    from headrace.gateway.filter.detectors.places.phone_places import phone_places

    return functools.partial(phone_places, min_digits=_MIN_PHONE_DIGITS, min_local_digits=_MIN_LOCAL_DIGITS)


def _secret_places() -> "FindPlaces":
    from headrace.gateway.filter.detectors.places.secret_places import secret_places

    return secret_places


PERSONAL_DATA: dict[str, PatternDetector] = {
    detector.name: detector
    for detector in (
        PatternDetector(
            "card",
            r"[0-9](?:[ -]?[0-9]){12,18}(?![0-9])",
            tails=(r"[ -]?[0-9](?:[ -]?[0-9]){0,18}",),
            sign=r"[0-9]",
            load_places=_card_places,
            check=_card_length,
        ),
        PatternDetector(
            "iban",
            r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}",
            tails=(r"[A-Z]{1,2}", r" ?(?:[A-Z0-9] ?){0,30}[0-9]{1,2}[A-Z]{2}"),
            sign=r"[0-9]",
            load_places=_iban_places,
            check=_iban_length,
        ),
        PatternDetector(
            "email",
            r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,24}",
            tails=(r"[A-Za-z0-9._%+@-]{1,320}",),
            sign="@",
            load_places=_email_places,
        ),
        PatternDetector(
            "phone",
            r"\+[0-9][0-9 ().-]{6,60}[0-9]|(?:\(0[0-9]{1,5}\)|0)[0-9 ()-]{5,60}[0-9]"
            r"|(?:\([2-9][0-9]{2}\)|[2-9][0-9]{2})[ .-][0-9]{3}[ .-][0-9]{4}(?![0-9])",
            tails=(r"[0-9 ().-]{0,64}[0-9][+(]{0,2}", r"[+(]{1,2}"),
            sign=r"[0-9]",
            load_places=_phone_places,
            check=_phone_length,
        ),
        PatternDetector(
            "secret",
            r"(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}(?![0-9A-Za-z])|gh[pousr]_[A-Za-z0-9]{36,}"
            r"|xox[abprs]-[A-Za-z0-9-]{10,}|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----",
            tails=(
                rf"(?:(?:[A-Za-z0-9_-]{{0,512}}-)?k)?[spr]{_NO_WORD_BEFORE}",
                rf"(?:(?:(?:[0-9A-Z]{{0,16}}A)?I)?K)?A{_NO_WORD_BEFORE}",
                rf"(?:(?:(?:[A-Za-z0-9]{{0,512}}_)?[pousr])?h)?g{_NO_WORD_BEFORE}",
                rf"(?:(?:(?:(?:[A-Za-z0-9-]{{0,512}}-)?[abprs])?x)?o)?x{_NO_WORD_BEFORE}",
                r"(?:[A-Z -]{0,50}-----|-{1,4})",
            ),
            sign="[-_]|AKIA",
            load_places=_secret_places,
        ),
    )
}
"""Detectors by name."""
