#!/usr/bin/env python3
"""Opens reports in headless Chromium: every view is drawn, zoomed, switched and printed without an error on the
console, and no two labels of a chart overlap. Needs Playwright and Chromium. With --keep FOLDER it leaves
the reports and screenshots there."""

import argparse
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Charts with more axes of numbers than titles of axes.
UNTITLED = """() => [...document.querySelectorAll('figure svg')]
  .filter(chart => chart.querySelectorAll('.ticks').length > chart.querySelectorAll('.axis-title').length)
  .map(chart => chart.getAttribute('aria-label'))"""
# Pairs of labels of one chart whose boxes overlap by more than a pixel each way.
OVERLAPS = """() => {
  const found = [];
  for (const chart of document.querySelectorAll('figure svg')) {
    const boxes = [...chart.querySelectorAll('text:not(.inside)')].filter(t => t.textContent)
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; ++i)
      for (let k = i + 1; k < boxes.length; ++k) {
        const [a, b] = [boxes[i][1], boxes[k][1]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 3) found.push(`${chart.getAttribute('aria-label')}: ${boxes[i][0]} | ${boxes[k][0]}`);
      }
  }
  return found;
}"""
# Labels that leave their chart to the left or right.
OUTSIDE = """() => [...document.querySelectorAll('figure svg')].flatMap(chart => {
  const c = chart.getBoundingClientRect();
  return [...chart.querySelectorAll('text:not(.inside)')].filter(t => t.textContent)
    .filter(t => t.getBoundingClientRect().left < c.left - 2 || t.getBoundingClientRect().right > c.right + 2)
    .map(t => `${chart.getAttribute('aria-label')}: ${t.textContent}`);
})"""


def say(message):
    print(message, flush=True)


def write_reports(fusewise, folder):
    """A report of each kind, with the views that it has to have."""
    def report(name, source, views, *options):
        out = folder / f"{name}.html"
        subprocess.run([fusewise, "report", source, "-o", str(out), *options], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return out, views

    whole = ["scaling", "timeline", "parts", "plan", "whatif", "numbers"]
    yield report("resnet50", "scenarios/resnet50-v100.json", whole)
    yield report("sweep", "scenarios/resnet50-v100-sweep.json", [*whole, "sweep"])
    rows = folder / "sweep.csv"
    rows.write_text("".join((ROOT / "tests/golden/resnet50-v100-sweep.sweep.csv").read_text().splitlines(True)[:-1]))
    yield report("sweep-rows", str(rows), ["sweep"])
    yield report("cluster", "scenarios/resnet50-v100-cluster.json", whole)
    named = folder / "named.json"
    named.write_text(json.dumps(all_named()))
    yield report("named", str(named), whole)
    sharded = folder / "sharded.json"
    sharded.write_text(json.dumps(with_shards()))
    yield report("sharded", str(sharded), whole)
    stages = folder / "stages.json"
    stages.write_text(json.dumps(with_stages()))
    yield report("stages", str(stages), ["scaling", "timeline", "parts", "plan", "whatif", "sweep", "numbers"])
    divided = folder / "stage-results.json"
    divided.write_text(subprocess.run([fusewise, "simulate", str(stages), "--json"], cwd=ROOT, check=True, capture_output=True,
                                      text=True).stdout)
    yield report("stage-results", str(divided), ["scaling", "parts", "numbers"])
    results = folder / "results.json"
    results.write_text(subprocess.run([fusewise, "simulate", "scenarios/googlenet-k80-measured.json", "--json"], cwd=ROOT,
                                      check=True, capture_output=True, text=True).stdout)
    yield report("results", str(results), ["scaling", "parts", "numbers"])
    fitted = folder / "fit.json"
    logs = sorted(str(log) for log in (ROOT / "tests/data/b-caffe").glob("allreduce*.log"))
    fitted.write_text(subprocess.run([fusewise, "fit", *logs, "--json"], check=True, text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL).stdout)
    yield report("fit", str(fitted), ["fit"])
    accuracy = folder / "accuracy.json"
    accuracy.write_text(json.dumps(made_up_accuracy()))
    yield report("accuracy", str(accuracy), ["accuracy"])
    live = folder / "live.json"
    live.write_text(json.dumps(made_up_live()))
    yield report("live", str(live), ["accuracy", "live"])
    front = folder / "front.json"
    front.write_text(json.dumps(made_up_front()))
    yield report("front", str(front), ["front"])
    yield report("trace", "tests/data/kineto/vgg13-h100-iter41.json", ["compared"])
    traces = ["tests/data/ranks/dlrm", "tests/data/ranks/dlrm/worker0.pt.trace.json.gz"]  # of all ranks, and of one
    comparison = folder / "comparison.json"
    comparison.write_text(subprocess.run([fusewise, "compare", *traces, "--json"], cwd=ROOT, check=True, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    yield report("comparison", str(comparison), ["compared"])


def all_named():
    """A scenario with every named schedule."""
    names = re.findall('"([^"]+)"', re.search(r"const NAMED = \[(.*?)\];", (ROOT / "planner/report/page/draw.js").read_text(), re.S)[1])
    needed = {**dict.fromkeys(("grace", "hipress", "cupcake"), {"compression": "efsignsgd"}),
              **dict.fromkeys(("topk-a", "topk-dsa", "gtopk", "gaussian-k", "ok-topk", "hitopk"), {"density": 0.01})}
    return {"format": "fusewise.scenario", "version": 1, "name": "every named schedule", "profile": "resnet50-v100",
            "network": "v100-25gbe-nvlink", "workers": [16, 64], "schedules": [{"name": name, **needed.get(name, {})} for name in names]}


def with_shards():
    """A job of FSDP alone, whose times are an estimate."""
    return {"format": "fusewise.scenario", "version": 1, "name": "FSDP", "network": "h100-nvlink-8", "workers": [2, 8],
            "profile": {"estimate": "resnet18", "device": "h100"}, "schedules": ["fsdp2", {"name": "fsdp2", "fusion": "optimal"}]}


def with_stages():
    """A scenario with pipeline stages."""
    return {"format": "fusewise.scenario", "version": 1, "name": "Llama 2 7B in four stages", "network": "h100-nvlink-8",
            "profile": {"estimate": "llama2-7b", "device": "h100", "batch_size": 1},
            "between": {"bandwidth_gbps": 400, "startup_us": 5}, "workers": [64, 256],
            "parallel": {"tensor": 2, "pipeline": 4, "stages": {"schedule": "1f1b", "micro_batches": 8, "p2p_us": 50}},
            "schedules": ["ddp", "megatron-do", "fsdp2"], "sweep": {"pipeline_stages": [2, 4], "micro_batches": [8, 16]}}


def made_up_accuracy():
    cases = [{"group": f"network {i // 6}", "plan": f"plan {i % 6}", "compute": "waiting", "is_dense": True,
              "verdict": "passed" if i < 20 else "not judged",
              **({} if i < 20 else {"not_judged_because": f"a fixed loop spreads by {i} %"}), "predicted_us": 1000 + 13 * i, "measured_us": 1000 + 12 * i,
              "interval_us": [995 + 12 * i, 1008 + 12 * i], "attempts": 1, "runs": []} for i in range(30)]
    return {"format": "fusewise.accuracy", "version": 1, "suite": "made up", "date": "today", "machine": "this one",
            "cases": cases}


def made_up_live():
    """Two plans of three collectives, the second of which is predicted to end 1 ms earlier."""
    def times(quantity, measured, earlier, **more):
        return {"quantity": quantity, **more, "predicted_us": measured - earlier, "measured_us": measured, "min_us": measured - 10, "max_us": measured + 30,
                "error": -earlier / 10000}
    quantities = [times(*each, worker=0) for each in (("forward", 2000, 0), ("backward", 4000, 100), ("exposed communication", 3000, 1000))]
    for i in range(3):
        quantities += [times(f"all-reduce {i + 1} start", 3000 + 2000 * i, 0, worker=0), times(f"all-reduce {i + 1} end", 4900 + 2000 * i, 1000 * (i == 1), worker=0)]
    return {"format": "fusewise.live-validation", "version": 1, "where": "2 processes, made up",
            "plans": [{"name": name, "iteration": times("iteration", 10000, 500), "quantities": quantities} for name in ("wfbp", "ours")]}


def check_live(page):
    """The error is that of the iteration, and the measured lane stands above the predicted one."""
    text = page.text_content("#accuracy")
    assert "2 measured cases; the predicted iteration is off by 5.0 % in the mean and 5.0 % at worst" in text, text
    bars = page.eval_on_selector_all("#live svg rect", """all => all.filter(each => each.described)
        .map(each => [each.described, each.getBoundingClientRect().top, each.getBoundingClientRect().width])""")
    assert [text for text, *_ in bars if "all-reduce 2" in text] == ["measured: all-reduce 2, from 5.000 to 6.900 ms",
                                                                     "predicted: all-reduce 2, from 5.000 to 5.900 ms"], bars
    (_, above, longer), (_, below, shorter) = [bar for bar in bars if "all-reduce 2" in bar[0]]
    assert above < below and abs(shorter / longer - 0.9 / 1.9) < 0.01, bars


def made_up_front():
    plans = [{"peak_bytes": peak, "iteration_us": us, "lower_bound_us": bound, "units": "blocks", "groups": 3, "prefetch": 1, "backward_prefetch": 1,
              "kept_groups": 0} for peak, us, bound in ((10**9, 2000, 1500), (2 * 10**9, 1000, 900))]
    return {"format": "fusewise.memory-front", "version": 1, "workers": 2, "exact": False, "looked_at": 9,
            "activations": True, "chosen": 1, "plans": plans}


def check_sharded(page):
    """What is pasted first is for FSDP, and no efficiency of a band is above 100 %."""
    assert page.text_content("#plan pre").startswith("# FSDP"), page.text_content("#plan pre")
    ticks = page.eval_on_selector_all("#scaling .pair figure:last-child svg text", "all => all.map(each => +each.textContent).filter(Number.isFinite)")
    assert len(ticks) > 2 and max(ticks) <= 100, ticks


def check_front(page):
    """A plan is the fastest known one up to the memory of the next, and between two plans the bound is that of the one
    with more memory: the dashed line falls at the first plan, the solid one at the second."""
    bound, known = [[tuple(map(float, point.split(","))) for point in path.removeprefix("M").split("L")]
                    for path in page.eval_on_selector_all("#front path.curve", "all => all.map(each => each.getAttribute('d'))")]
    (x1, high), (at_fall, low), (x2, end) = bound
    assert (at_fall, end) == (x1, low) and low > high and x2 > x1, f"bound {bound}"
    assert [x for x, _ in known[:3]] == [x1, x2, x2] and known[0][1] == known[1][1] < known[2][1], f"known {known}"


def check_unjudged(page):
    """What was not judged is said, with the reason of each case."""
    text = page.text_content("#accuracy")
    assert "10 of these cases are not judged, because the machine was not quiet" in text, text
    assert "a fixed loop spreads by 20 %" in text and "a fixed loop spreads by 29 %" in text, text


def check_looks(page):
    """No two schedules have the same colour, dash and marker."""
    looks = page.eval_on_selector_all("#scaling .legend svg", """all => all.map(each => {
      const [line, marker] = each.querySelectorAll('path');
      return [line.getAttribute('stroke'), line.getAttribute('stroke-dasharray'), marker.getAttribute('d')].join('; ');
    })""")
    twice = [look for look in looks if looks.count(look) > 1]
    assert looks and not twice, f"{len(looks)} schedules, of which these look the same: {twice}"


# Adds a heading after the first chart of each section: the outline of a PDF then shows on which sheet the chart is.
MARK_CHARTS = """([paper, widest]) => addEventListener('beforeprint', () => {
  for (const section of document.querySelectorAll('main > section')) {
    const chart = section.querySelector('figure svg.' + paper), mark = document.createElement('h6');
    if (!chart && !section.querySelector('figure')) continue;
    if (!(chart.viewBox.baseVal.width <= widest)) throw Error('a chart is too wide for paper: its text becomes small');
    mark.textContent = 'chart of ' + section.querySelector('h2').textContent;
    mark.style = 'margin: 0; font-size: 2px; line-height: 2px; break-before: avoid';
    chart.after(mark);
  }
  document.body.dataset.closed = document.querySelectorAll('details:not([open])').length;
})"""


def check_paper(context, html, paper, widest):
    """On paper no heading stands on another sheet than the chart below it, and all details are open."""
    page = context.new_page()
    page.goto(html.as_uri())
    page.evaluate(MARK_CHARTS, [paper, widest])
    details = page.locator("details[open]").count()
    pdf = page.pdf(format="A4", landscape=paper == "wide", outline=True, tagged=True)
    sheets = dict(re.findall(rb"/Title \(([^)]*)\)\n/Dest \[(\d+) 0 R", pdf))
    charts = {name: sheet for name, sheet in sheets.items() if name.startswith(b"chart of ")}
    assert charts, f"{html.name}, {paper}: no chart is printed as wide as the paper"
    alone = [name for name, sheet in charts.items() if sheets.get(name.removeprefix(b"chart of ")) != sheet]
    assert not alone, f"{html.name}, {paper}: on another sheet than its heading: {alone}"
    assert page.evaluate("document.body.dataset.closed") == "0", f"{html.name}: closed details are printed"
    assert page.locator("details[open]").count() == details, f"{html.name}: details stay open after printing"
    page.close()


def check_views(page, views):
    seen = page.eval_on_selector_all("main > section", "all => all.map(each => each.id)")
    assert sorted(seen) == sorted(views), f"views {seen}, expected {views}"
    for name in views:
        page.click(f"nav a[href='#{name}']")
        box = page.locator(f"#{name}").bounding_box()
        assert box and box["height"] > 60, f"view {name} is empty"


def check_labels(page, where):
    for what, script in (("overlap", OVERLAPS), ("leave their chart", OUTSIDE)):
        found = page.evaluate(script)
        assert not found, f"{where}: labels that {what}: {found[:5]}"
    untitled = page.evaluate(UNTITLED)
    assert not untitled, f"{where}: axes without a title: {untitled}"


def check_zoom(page, name):
    """Zooms by keyboard, wheel and button, moves by key and dragging, and comes back."""
    figure = page.locator(f"#{name} figure.timeline")
    status = page.locator(f"#{name} p[role=status]")
    home = status.text_content()

    def changes(what, act):
        before = status.text_content()
        act()
        page.wait_for_function(f"before => document.querySelector('#{name} p[role=status]').textContent !== before",
                               arg=before, timeout=3000)
        assert figure.locator("rect").count() > 3, f"{what}: nothing is drawn"

    figure.scroll_into_view_if_needed()
    figure.focus()
    changes("plus", lambda: page.keyboard.press("+"))
    changes("right", lambda: page.keyboard.press("ArrowRight"))
    changes("minus", lambda: page.keyboard.press("-"))
    box = figure.bounding_box()
    at = (box["x"] + box["width"] / 2, min(max(box["y"] + 60, 200), page.viewport_size["height"] - 60))
    page.mouse.move(*at)
    changes("wheel", lambda: page.mouse.wheel(0, -300))

    def drag():
        page.mouse.down()
        page.mouse.move(at[0] - 80, at[1], steps=4)
        page.mouse.up()
    changes("drag", drag)
    changes("button", lambda: page.click("button[aria-label='zoom in']"))
    check_labels(page, f"{name}, zoomed")
    figure.focus()
    page.keyboard.press("0")
    page.wait_for_function(f"home => document.querySelector('#{name} p[role=status]').textContent === home", arg=home,
                           timeout=3000)


def check_keys(page):
    """Each chart can be selected; keys then go from mark to mark, and the page says what the mark holds."""
    tooltip = page.locator("#tooltip")
    assert tooltip.get_attribute("aria-live") == "polite"
    for figure in page.locator("main figure:visible").all():
        following = "ArrowDown" if figure.get_attribute("class") == "timeline" else "ArrowRight"
        preceding = {"ArrowDown": "ArrowUp", "ArrowRight": "ArrowLeft"}[following]
        texts = figure.evaluate("each => [...each.querySelectorAll('svg *')].map(mark => mark.described).filter(text => text)")
        where = figure.get_attribute("aria-label")
        assert texts and figure.get_attribute("tabindex") == "0", f"{where}: cannot be read with keys"
        figure.focus()
        for key, text in [*((following, text) for text in texts[:3]), (preceding, texts[max(0, min(3, len(texts)) - 2)])]:
            page.keyboard.press(key)
            assert tooltip.text_content() == text and tooltip.is_visible(), f"{where}: {tooltip.text_content()}, not {text}"
            assert figure.locator(".here").count() == 1, f"{where}: which mark is explained is not shown"
            box = figure.locator(".here").bounding_box()
            top = 40 if page.viewport_size["width"] > 620 else -1  # below the contents, which stay at the top of a wide window
            assert top <= box["y"] <= page.viewport_size["height"], f"{where}: the mark is outside the window"
        page.keyboard.press("Escape")
        assert not tooltip.is_visible() and figure.locator(".here").count() == 0, f"{where}: Escape does not end it"


def check_compression(page):
    """Every compressor of the explanation has a row, which says from which bandwidth on it pays."""
    explained = page.evaluate("(data.plan.explanation.compressors || []).map(row => [row.name, row.break_even_slowdown_per_byte])")
    heading = page.locator("#whatif h3", has_text="Does compression pay?")
    rows = heading.locator("xpath=following::table[1]/tbody/tr").all() if explained else []
    assert len(rows) == len(explained), f"{len(rows)} rows of {len(explained)} compressors"
    for row, (name, factor) in zip(rows, explained):
        text = row.inner_text()
        pays = "not even" if factor is None else "with any bandwidth" if factor == 0 else f"up to {1 / factor:.3g} times"
        assert name in text and pays in text, f"{name}, which pays {pays}: {text}"
    return len(explained)


def check_what_if(page):
    """Two changes are shown together, in a sentence and in a bar above those of single changes; without one neither is."""
    combined = page.evaluate("data.plan.explanation.combined")
    whatif = page.locator("#whatif")
    bars = whatif.locator("figure rect").count()
    startups, bandwidth = (whatif.locator("select").nth(i) for i in range(2))
    startups.select_option("half as long")
    bandwidth.select_option("twice")
    row = 0
    for each, chosen in zip(combined["inputs"], (2, 2, 0, 0)):
        row = row * len(each["values"]) + chosen
    this_plan, best = (f"{combined[key][row] / 1000:.3f} ms" for key in ("this_plan_us", "best_plan_us"))
    text = whatif.locator("p[role=status]").text_content().replace(",", "")
    assert "Startups half as long bandwidth twice" in text and this_plan in text and best in text, f"{this_plan}, {best}: {text}"
    assert whatif.locator("figure rect").count() == bars + 2, "no bar for the changes together"
    assert whatif.locator("figure svg").get_attribute("aria-label").endswith("together: startups half as long, bandwidth twice")
    for select in (startups, bandwidth):
        select.select_option("as given")
    assert whatif.locator("figure rect").count() == bars and "Choose changes" in whatif.locator("p[role=status]").text_content()


def check_heat_map(page):
    """Arrows go to the neighbour in their direction; numbers are those of the rows of the golden file."""
    rows = list(csv.DictReader((ROOT / "tests/golden/resnet50-v100-sweep.sweep.csv").open()))
    page.locator("#sweep figure").focus()
    for key, workers, rate in (("ArrowRight", "4", "10"), ("ArrowDown", "4", "25"), ("ArrowRight", "16", "25"), ("ArrowDown", "16", "100"),
                               ("ArrowDown", "16", "100"), ("ArrowUp", "16", "25")):
        page.keyboard.press(key)
        here = next(row for row in rows if (row["workers"], row["line_rate_gbps"], row["batch_size"], row["density"], row["schedule"]) ==
                    (workers, rate, "32", "0.001", "fusewise"))
        text = page.text_content("#tooltip")
        place, number = text.split(": efficiency in % ")
        assert place == f"workers {workers}, line_rate_gbps {rate}", text
        assert abs(float(number) - 100 * float(here["scaling_efficiency"])) < 0.01, text
    page.keyboard.press("Escape")


def check_switches(page):
    """Every selection is set to each of its values, every legend entry and checkbox is pressed twice."""
    for select in page.locator("main select").all():
        for value in select.evaluate("each => [...each.options].map(option => option.value)"):
            if select.is_visible():
                select.select_option(value)
    for kind in ("main .legend button", "main input[type=checkbox]"):
        for each in page.locator(kind).all():
            each.click()
            each.click()
    closed = page.locator("main details:not([open]) > summary")
    while closed.count():
        closed.first.click()


def check_pictures(page, keep, stem):
    """Every chart is saved as a document of its own, which asks the page for nothing."""
    buttons = page.get_by_role("button", name="Save as SVG").all() + page.get_by_role("button", name="save the timelines as SVG").all()
    assert buttons, "no chart can be saved"
    for i, button in enumerate(buttons):
        with page.expect_download() as started:
            button.click()
        text = pathlib.Path(started.value.path()).read_text(encoding="utf-8")
        root = xml.etree.ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(root) > 2, f"{started.value.suggested_filename}: no picture"
        assert "var(" not in text and "class=" not in text and "currentcolor" not in text.lower(), "a picture with colours of the page"
        if keep:
            (keep / f"{stem}-{i}.svg").write_text(text, encoding="utf-8")


def check_report(browser, html, views, keep):
    problems = []
    for theme, width, height in (("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 800), ("dark", 390, 800)):
        context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": height})
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append("asks for " + request.url)
                if not request.url.startswith("file:") else None)
        page.goto(html.as_uri())
        check_views(page, views)
        check_labels(page, f"{html.name}, {theme}, {width}")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width + 1, f"{html.name}: the page is {wide} wide in a window of {width}"
        if keep:
            for name in views:
                page.locator(f"#{name}").screenshot(path=str(keep / f"{html.stem}-{theme}-{width}-{name}.png"))
        for name in {"timeline", "compared", "live"} & set(views):
            check_zoom(page, name)
        check_keys(page)
        if "sweep" in views and "batch_size" in page.text_content("#sweep"):
            check_heat_map(page)
        if "front" in views:
            check_front(page)
        if html.stem == "sharded":
            check_sharded(page)
        if "live" in views:
            check_live(page)
        elif "accuracy" in views:
            check_unjudged(page)
        if "scaling" in views:
            check_looks(page)
        if "whatif" in views:
            count = check_compression(page)
            assert count or html.stem != "resnet50", "no compressor is explained"
            check_what_if(page)
        check_pictures(page, keep, f"{html.stem}-{theme}-{width}")
        if (theme, width) == ("light", 1280):
            check_paper(context, html, "upright", 720)
            check_paper(context, html, "wide", 1040)
        check_switches(page)
        check_labels(page, f"{html.name}, switched")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        page.click("#theme")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
        page.set_viewport_size({"width": width - 60, "height": height})
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible(), "the contents are printed"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)", f"{html.name}: printed on {paper}"
        context.close()
    assert not problems, f"{html.name}: {problems[:5]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fusewise", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("no Chromium (apt install chromium)")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for html, views in write_reports(str(options.fusewise.resolve()), options.keep or pathlib.Path(folder)):
            check_report(browser, html.resolve(), views, options.keep)
            say(f"{html.name}: every view opened, {html.stat().st_size / 1e3:.0f} kB")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
