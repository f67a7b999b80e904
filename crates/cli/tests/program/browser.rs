//! Looks at a page in a real browser without a window: it must load without an error, and nothing
//! may be cut off.
//!
//! The page is shown in frames as wide as a telephone, a tablet and a desktop. A script around
//! them, not in the page, measures the boxes of all drawn things. If the machine has no Chromium or
//! Chrome, a test says so and passes.

use crate::common::TestDirectory;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names under which the browser is installed.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// A browser that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(30);

/// Text that the script writes before and after its findings.
const BEGIN: &str = "[page-findings";
const END: &str = "page-findings]";

/// Measures boxes: nothing wider than the page, nothing drawn outside of its plot, no text on
/// another.
const PROBE: &str = r"
const page = JSON.parse(document.getElementById('page').textContent), lines = [];
const inside = (box, view) => box.x > -0.6 && box.y > -0.6 && box.x + box.width < view.width + 0.6
  && box.y + box.height < view.height + 0.6;
const overlap = (a, b) => a.x + 1 < b.x + b.width && b.x + 1 < a.x + a.width && a.y + 4 < b.y + b.height
  && b.y + 4 < a.y + a.height;
async function look(width) {
  const frame = document.createElement('iframe');
  frame.style.width = width + 'px';
  frame.style.height = '900px';
  frame.style.border = '0';
  frame.srcdoc = page;
  const loaded = new Promise(done => { frame.onload = done; });
  document.body.append(frame);
  await loaded;
  const inner = frame.contentDocument;
  const wide = inner.documentElement.scrollWidth;
  if (wide > width) lines.push(`bad: at ${width} the page is ${wide} wide`);
  for (const svg of inner.querySelectorAll('svg')) {
    const name = `at ${width}, ${svg.getAttribute('aria-label')}: `;
    for (const part of svg.querySelectorAll('text, path, rect, circle, polyline'))
      if (!inside(part.getBBox(), svg.viewBox.baseVal)) lines.push(`bad: ${name}cut off: ${part.textContent}`);
    const texts = [...svg.querySelectorAll('text')];
    texts.forEach((one, index) => texts.slice(0, index).forEach(other => {
      if (overlap(one.getBBox(), other.getBBox()))
        lines.push(`bad: ${name}${one.textContent} lies on ${other.textContent}`);
    }));
  }
  if (width > 1000) {
    lines.push(`background ${getComputedStyle(inner.body).backgroundColor}`);
    lines.push(`plots ${inner.querySelectorAll('figure > svg').length}`);
    for (const heading of inner.querySelectorAll('h2')) lines.push(`heading ${heading.textContent}`);
  }
  frame.remove();
}
(async () => {
  for (const width of [340, 760, 1240]) await look(width);
  document.getElementById('found').textContent = '[page-' + 'findings\n' + lines.join('\n') + '\npage-' + 'findings]';
})();
";

/// Observations of a page in a browser.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) headings: Vec<String>,
    pub(crate) plots: usize,
    /// Colour of the page as the browser names it.
    pub(crate) background: String,
    /// Text that is cut off, too wide or written over other text, and errors of the page.
    pub(crate) flaws: Vec<String>,
}

/// Colour scheme that the reader's system asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Light {
    Bright,
    Dark,
}

/// Looks at a page in light and in dark: it must have no flaws, and be of two colours. `None` where
/// there is no browser.
pub(crate) fn look(page: &str) -> Option<Seen> {
    let bright = look_in(page, Light::Bright)?;
    let dark = look_in(page, Light::Dark)?;
    assert!(bright.flaws.is_empty(), "{:#?}", bright.flaws);
    assert!(dark.flaws.is_empty(), "{:#?}", dark.flaws);
    assert_ne!(bright.background, dark.background, "no dark colours");
    Some(bright)
}

/// Looks at a page in one light and reports its flaws.
pub(crate) fn look_in(page: &str, light: Light) -> Option<Seen> {
    let Some(browser) = browser() else {
        eprintln!("skipped: none of {NAMES:?} is installed, so no page is looked at");
        return None;
    };
    let place = TestDirectory::new();
    let text = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
    let around = place.file(
        "around.html",
        &format!(
            "<!doctype html><meta charset=\"utf-8\"><body><script type=\"application/json\" id=\"page\">{text}</script>\
             <pre id=\"found\"></pre><script>{PROBE}</script>"
        ),
    );
    // 0 is dark, 1 is light.
    let preferred = u8::from(light == Light::Bright);
    let (out, errors) = (place.at("out"), place.at("errors"));
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args(["--enable-logging=stderr", "--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", place.at("profile")))
        .arg(format!("--blink-settings=preferredColorScheme={preferred}"))
        .args(["--dump-dom", &format!("file://{around}")])
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the browser does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (dom, errors) = (place.read("out"), place.read("errors"));
    let mut seen = Seen::default();
    // Scripts, resources and policies complain on the page's console.
    let console = errors.lines().filter(|line| line.contains("CONSOLE"));
    seen.flaws.extend(console.map(str::to_owned));
    let findings = dom
        .split(BEGIN)
        .nth(1)
        .and_then(|rest| rest.split(END).next());
    let findings = findings.unwrap_or_else(|| panic!("the page was not looked at: {errors}"));
    for line in findings.lines() {
        let line = line
            .replace("&amp;", "&")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        match line.split_once(' ') {
            Some(("heading", rest)) => seen.headings.push(rest.into()),
            Some(("plots", rest)) => seen.plots = rest.parse().unwrap(),
            Some(("background", rest)) => seen.background = rest.into(),
            Some(("bad:", rest)) => seen.flaws.push(rest.into()),
            _ => {}
        }
    }
    Some(seen)
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path);
    let all = places.flat_map(|place| NAMES.map(|name| place.join(name)));
    all.into_iter().find(|file| file.is_file())
}

/// A page with one plot.
fn sample(style: &str, plot: &str, script: &str) -> String {
    format!(
        "<!doctype html><html><head><meta name=\"color-scheme\" content=\"light dark\"><style>body {{ margin: 0; \
         background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ background: #000 }} }} {style}</style></head>\
         <body><h2>A &amp; B</h2><figure><svg viewBox=\"0 0 100 50\" aria-label=\"a\">{plot}</svg></figure>{script}</body></html>"
    )
}

#[test]
fn a_page_with_flaws_is_noticed() {
    let whole = sample("", "<text x=\"10\" y=\"20\">a</text>", "");
    let Some(seen) = look(&whole) else {
        return;
    };
    assert_eq!(seen.headings, ["A & B"]);
    assert_eq!(seen.plots, 1);
    let flaws = [
        (sample("body { width: 2000px }", "", ""), "wide"),
        (
            sample("", "<text x=\"-20\" y=\"20\">abc</text>", ""),
            "cut off",
        ),
        (
            sample(
                "",
                "<text x=\"10\" y=\"20\">abc</text><text x=\"12\" y=\"22\">d</text>",
                "",
            ),
            "lies on",
        ),
        (sample("", "", "<script>missing();</script>"), "missing"),
    ];
    // One look at all of them would not tell which one went unnoticed; a look takes a second.
    for (page, part) in flaws {
        let seen = look_in(&page, Light::Bright).unwrap();
        assert!(
            seen.flaws.iter().any(|flaw| flaw.contains(part)),
            "{part}: {:?}",
            seen.flaws
        );
    }
}
