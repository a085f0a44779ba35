"""The hook of the site: pages that are made when it is built, and links that differ between repository and site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from commands import command_pages, list_of_commands
from mkdocs.structure.files import File
from notebooks import notebook_page

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
OF_THE_ROOT = {
    "CONTRIBUTING.md": "contributing/index.md",
    "CODE_OF_CONDUCT.md": "contributing/code-of-conduct.md",
    "SECURITY.md": "contributing/security.md",
    "CHANGELOG.md": "contributing/changelog.md",
}
"""Files that belong to the top of the repository, and their pages."""
COMMANDS = "<!-- every command -->"
SECTION = re.compile(
    r'<label class="md-nav__title" for="__nav_([\d_]+)">'
    r'\s*<span class="md-nav__icon md-icon"></span>([^<]+)</label>'
)
NAMED = re.compile(r'aria-labelledby="__nav_([\d_]+)_label"')
CORNER = re.compile(r"<th(\b[^>]*)>\s*</th>")
NOTEBOOK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)*(?:tutorials/)?[\w-]+)\.ipynb\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the commands, of the notebooks, and of what lies at the top of the repository."""
    made = command_pages()
    _section(config.nav, "Command line").extend(
        {text.splitlines()[0].removeprefix("# "): path} for path, text in made.items()
    )
    made |= {page: _as_page((ROOT / name).read_text(encoding="utf-8")) for name, page in OF_THE_ROOT.items()}
    for path in tutorials():
        page = f"tutorials/{path.stem}.md"
        made[page], pictures = notebook_page(path)
        for name, content in pictures.items():
            files.append(File.generated(config, f"tutorials/pictures/{name}", content=content))
        _section(config.nav, "Tutorials").append(page)
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to notebooks lead to their pages; the cells of studies are in the repository, not in the site."""
    uri = page.file.src_uri
    if uri == "command-line/index.md":
        return markdown.replace(COMMANDS, list_of_commands())
    if uri.startswith("results/"):
        return re.sub(r"\[([^\]]+)\]\((?:[^)]*/cells|\w+\.parquet)\)", r"\1", markdown)
    return NOTEBOOK.sub(lambda found: _to_page(found, Path(page.file.abs_src_path or uri)), markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Names that screen readers need, and that the theme leaves out.

    Its search is a dialog without a name. The label that names a section's list is empty where the section has a
    page. The corner of a table is no heading.
    """
    dialog = 'data-md-component="search" role="dialog"'
    output = output.replace(dialog, f'{dialog} aria-label="Search"')
    titles = {number: title.strip() for number, title in SECTION.findall(output)}
    output = NAMED.sub(lambda nav: f'aria-label="{titles[nav[1]]}"' if nav[1] in titles else nav[0], output)
    return CORNER.sub(r"<td\1></td>", output)


def _to_page(found: re.Match[str], source: Path) -> str:
    """A link to a notebook as one to its page; where there is no notebook, its words alone."""
    words, target = found.groups()
    there = (source.parent / f"{target}.ipynb").exists() or (DOCS / "tutorials" / f"{target}.ipynb").exists()
    return f"[{words}]({target}.md)" if there else words


def tutorials() -> list[Path]:
    """The notebooks in the order in which the page of tutorials lists them."""
    folder = DOCS / "tutorials"
    listed = re.findall(r"\(([\w-]+\.ipynb)\)", (folder / "index.md").read_text(encoding="utf-8"))
    return [folder / name for name in listed if (folder / name).exists()]


def _section(nav: list[Any], title: str) -> list[Any]:
    return next(entry[title] for entry in nav if title in entry)


def _as_page(text: str) -> str:
    """Links of a file at the top of the repository, as they are seen from a folder of the docs."""
    for name, page in OF_THE_ROOT.items():
        text = text.replace(f"]({name}", f"]({page.split('/')[1]}")
    return text.replace("](docs/", "](../")
