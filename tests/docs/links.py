"""Checks links: every relative link and its anchor exist, and every page can be reached from README.md."""
import os
import re


def anchors_on_github(headings):
    return _numbered(re.sub(r"[^\w\- ]", "", _plain(heading).lower()).replace(" ", "-") for heading in headings)


def anchors_on_the_site(headings):
    """As Python-Markdown makes them, which mkdocs uses."""
    return _numbered((re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", _plain(heading)).strip().lower())
                      for heading in headings), "_")


def _plain(heading):
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")


def _numbered(slugs, separator="-"):
    """A heading that repeats gets a number."""
    taken = set()
    for slug in slugs:
        name, count = slug, 0
        while name in taken:
            count += 1
            name = f"{slug}{separator}{count}"
        taken.add(name)
    return taken


def target_of(page_name, link):
    """The path from the root of the tree to which a relative link leads, and its anchor."""
    path, _, anchor = link.partition("#")
    return (os.path.normpath(os.path.join(os.path.dirname(page_name), path)) if path else page_name), anchor


def check_links(root, pages):
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, anchor = target_of(name, link)
            if not (root / target).exists():
                yield f"{name}: the link {link} leads to no file"
            elif anchor and target in pages:
                headings = pages[target].headings
                if anchor not in anchors_on_github(headings) & anchors_on_the_site(headings):
                    yield f"{name}: the link {link} leads to no heading (of one and the same anchor on GitHub and on the site)"
            if name.startswith("docs/") and not target.startswith("docs/"):
                yield f"{name}: the link {link} leaves docs/, so it is dead on the site; write the path as code"


def check_reachable(pages):
    reached, waiting = set(), ["README.md"]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        waiting.extend(target_of(name, link)[0] for link in pages[name].links)
    for name in pages.keys() - reached:
        yield f"{name}: no chain of links leads here from README.md"
