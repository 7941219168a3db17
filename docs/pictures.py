#!/usr/bin/env python3
"""Draws the pictures in docs/images again: the scaling charts of the report on the scenario of README.md and of the tutorial.

    python docs/pictures.py build/fusewise

Needs Playwright and Chromium, as tests/report/browser.py does."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Picture, the page whose scenario it shows, the title of that scenario's block, and the command of the page that makes its profile.
PICTURES = (
    ("scaling.svg", "README.md", "resnet50.json", None),
    ("mine.svg", "docs/tutorial.md", "mine.json", "estimate bert-base --device a100 --batch 32 -o mymodel.profile.json"),
)


def draw(browser, fusewise, picture, page_of_docs, title, command, folder):
    text = (ROOT / page_of_docs).read_text(encoding="utf-8")
    block = re.search(rf'^```json title="{re.escape(title)}"\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    if not block:
        sys.exit(f"{page_of_docs}: expected a block {title}")
    (folder / title).write_text(block[1], encoding="utf-8")
    for each in filter(None, (command, f"report {title} -o report.html")):
        subprocess.run([fusewise, *each.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
    page.goto((folder / "report.html").as_uri())
    with page.expect_download() as saved:
        page.locator("#scaling").get_by_role("button", name="Save as SVG").first.click()
    shutil.copyfile(saved.value.path(), ROOT / "docs" / "images" / picture)
    page.close()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chromium = shutil.which("chromium")
    if not chromium:
        sys.exit("no Chromium (apt install chromium)")
    fusewise = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for picture in PICTURES:
            draw(browser, fusewise, *picture, pathlib.Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
