"""The catalogues in locale/. `make messages` brings in what was marked since, to be translated."""

from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from tests.languages.marked import LANGUAGES, LOCALES, catalogue

DOMAINS = ("django", "djangojs")
# Babel's own would carry dates and names, and change with each update.
_HEADER = """msgid ""
msgstr ""
"Project-Id-Version: MOM\\n"
"Language: {language}\\n"
"Plural-Forms: {plural_forms}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def file(language: str, domain: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / f"{domain}.po"


def read(language: str, domain: str) -> Catalog:
    with file(language, domain).open("rb") as source:
        return read_po(source, locale=language, domain=domain)


def update(language: str, domain: str) -> Catalog:
    """Adds what is marked and drops what is no more; what is close to a former text becomes `fuzzy`."""
    path = file(language, domain)
    catalog = (
        read(language, domain) if path.exists() else Catalog(locale=language, domain=domain, fuzzy=False)
    )
    catalog.update(catalogue(domain), update_header_comment=False, update_creation_date=False)
    catalog.obsolete.clear()
    texts = BytesIO()
    write_po(texts, catalog, sort_output=True, width=110, omit_header=True)
    header = _HEADER.format(language=language, plural_forms=catalog.plural_forms)
    path.write_bytes(header.encode() + texts.getvalue())
    return catalog


if __name__ == "__main__":
    for language in LANGUAGES:
        for domain in DOMAINS:
            catalog = update(language, domain)
            missing = sum(1 for message in catalog if message.id and (message.fuzzy or not message.string))
            print(
                f"{file(language, domain).relative_to(LOCALES.parent)}: {len(catalog)} texts, {missing} to do"
            )
