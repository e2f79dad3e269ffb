//! Tests of the HTML page of `capture report -o html`: it needs no other file, works with a keyboard, and prints well.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::{Value, json};

use super::browser::{ALONE, Browser};
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::plegctl::plegctl;

/// Records a scenario and writes the page of its report.
fn page(place: &CaptureDir) -> PathBuf {
    let directory = place.path("capture");
    record("sim:hung-container", &directory, &["--period", "500ms", "--for", "6s", "--slow", "1s"]);
    let output = plegctl(&["capture", "report", argument(&directory), "-o", "html"]);
    assert_eq!(output.code, Some(0), "{output}");
    let file = place.path("report.html");
    fs::write(&file, output.stdout).unwrap();
    file
}

#[test]
fn page_makes_no_network_requests() {
    let place = CaptureDir::make();
    let text = fs::read_to_string(page(&place)).unwrap();
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("default-src 'none'"));
    assert!(text.contains("class=\"call silent\"") || text.contains("class=\"call open\""));
    assert!(text.contains("shop/db-0"));
}

/// Takes a screenshot of the page; false if there is no browser.
fn take_screenshot(page: &Path, to: &Path, more: &[&str]) -> bool {
    let place = CaptureDir::make();
    let run = Command::new("chromium")
        .args(ALONE)
        .args(more)
        .arg(format!("--user-data-dir={}", argument(&place.path("profile"))))
        .arg(format!("--screenshot={}", argument(to)))
        .arg(format!("file://{}", argument(page)))
        .output();
    match run {
        Err(_) => false,
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

/// Writes base64 as the file of its bytes.
fn decode(text: &Value, to: &Path) -> Vec<u8> {
    let encoded = to.with_extension("base64");
    fs::write(&encoded, text.as_str().unwrap()).unwrap();
    let bytes = Command::new("base64").arg("-d").arg(&encoded).output().unwrap().stdout;
    fs::remove_file(encoded).unwrap();
    fs::write(to, &bytes).unwrap();
    bytes
}

/// Makes the browser's window this wide, and saves a screenshot of the first element that matches.
fn screenshot(browser: &mut Browser, width: u32, of: &str, to: &Path) -> Vec<u8> {
    let size = json!({ "width": width, "height": 1300, "deviceScaleFactor": 1, "mobile": false });
    browser.command("Emulation.setDeviceMetricsOverride", &size);
    browser.command("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
    let edges = browser.evaluate(&format!(
        "(() => {{ const box = document.querySelector('{of}').getBoundingClientRect();\
         return {{ x: 0, y: box.top + scrollY, width: {width}, height: box.height, scale: 1 }}; }})()"
    ));
    let picture = json!({ "format": "png", "captureBeyondViewport": true, "clip": edges });
    let taken = browser.command("Page.captureScreenshot", &picture);
    decode(&taken["data"], to)
}

#[test]
fn page_is_readable_on_a_phone_and_on_a_large_screen() {
    let place = CaptureDir::make();
    let page = page(&place);
    let Some(mut browser) = Browser::open(&page) else { return skip("there is no chromium here") };
    // Labels of the time axis that overlap, and elements that are partly outside of the page.
    let overlaps = "[...document.querySelectorAll('#ticks span')].map((span) => span.getBoundingClientRect())\
        .filter((box, at, all) => at > 0 && box.left < all[at - 1].right).length";
    let outside = "[...document.querySelectorAll('svg, th, td, dd, li, .labels span, button')]\
        .map((element) => element.getBoundingClientRect())\
        .filter((box) => box.left < 0 || box.right > document.documentElement.clientWidth).length";
    let scrolls = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    let without_colour = "[...document.querySelectorAll('.legend i')].filter((swatch) => {\
        const style = getComputedStyle(swatch);\
        return style.backgroundColor === 'rgba(0, 0, 0, 0)' && style.borderTopWidth === '0px';\
    }).length";
    for width in [360, 800, 1400] {
        let drawn = screenshot(&mut browser, width, "body", &artefacts().join(format!("{width}.png")));
        assert!(drawn.starts_with(b"\x89PNG") && drawn.len() > 20_000, "{width}: {} bytes", drawn.len());
        for (what, expression) in [
            ("overlapping labels", overlaps),
            ("elements outside", outside),
            ("pixels to scroll", scrolls),
            ("swatches without a colour", without_colour),
        ] {
            assert_eq!(browser.evaluate(expression), 0, "{what} at {width}");
        }
        let labels = browser.evaluate("document.querySelectorAll('#ticks span').length");
        assert!(labels.as_u64().is_some_and(|labels| (2..=14).contains(&labels)), "{labels} at {width}");
        let lines = browser.evaluate("document.querySelectorAll('.labels b').length");
        assert!(lines.as_u64().is_some_and(|lines| lines >= 6), "{lines} at {width}");
    }
}

#[test]
fn zoomed_timeline_has_labels_of_the_shown_times() {
    let place = CaptureDir::make();
    let page = page(&place);
    let Some(mut browser) = Browser::open(&page) else { return skip("there is no chromium here") };
    // The distance between the first two labels, in milliseconds.
    let distance = "(() => { const [first, second] = [...document.querySelectorAll('#ticks span')]\
        .map((label) => Date.parse(`1970-01-01T${label.textContent}Z`)); return second - first; })()";
    let whole = browser.evaluate(distance).as_f64().unwrap();
    for _ in 0..3 {
        browser.evaluate("document.querySelector('[data-zoom=in]').click()");
    }
    let zoomed = browser.evaluate(distance).as_f64().unwrap();
    assert!(zoomed > 0.0 && zoomed <= whole / 4.0, "{whole} {zoomed}");
}

#[test]
fn readme_shows_a_picture_of_the_report() {
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images/report.png");
    if env::var_os("PLEGCTL_BLESS").is_some() {
        let place = CaptureDir::make();
        let directory = place.path("capture");
        let settings = ["--period", "500ms", "--for"];
        record("sim:busy-deploy", &directory, &[&settings[..], &["25s"]].concat());
        record("sim:hung-two-pods", &directory, &[&settings[..], &["20s"]].concat());
        let output = plegctl(&["capture", "report", argument(&directory), "-o", "html"]);
        let file = place.path("report.html");
        fs::write(&file, output.stdout).unwrap();
        let Some(mut browser) = Browser::open(&file) else { return skip("there is no chromium here") };
        screenshot(&mut browser, 900, "section:has(svg)", &picture);
    }
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(readme.contains("](docs/images/report.png)"));
    let bytes = fs::read(picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 250_000, "{} bytes", bytes.len());
}

/// Returns the directory for the screenshots, so that a person can look at them.
fn artefacts() -> PathBuf {
    let artefacts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capture-report");
    fs::create_dir_all(&artefacts).unwrap();
    artefacts
}

#[test]
fn browser_shows_the_page_in_light_and_dark_mode() {
    let place = CaptureDir::make();
    let page = page(&place);
    let artefacts = artefacts();
    for (name, more) in
        [("light.png", [].as_slice()), ("dark.png", ["--blink-settings=preferredColorScheme=0"].as_slice())]
    {
        let to = artefacts.join(name);
        if !take_screenshot(&page, &to, more) {
            return skip("there is no chromium here");
        }
        let drawn = fs::read(&to).unwrap();
        assert!(drawn.starts_with(b"\x89PNG") && drawn.len() > 20_000, "{name}: {} bytes", drawn.len());
    }
}

/// Returns the visible part of the timeline: its start and its width.
fn shown(browser: &mut Browser) -> (f64, f64) {
    let shown = browser.evaluate("document.getElementById('timeline').getAttribute('viewBox')");
    let numbers: Vec<f64> =
        shown.as_str().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[2])
}

/// Presses Tab until this element has the focus. Each element that has the focus before must show it.
fn tab_to(browser: &mut Browser, wanted: &str) {
    for _ in 0..20 {
        browser.press("Tab", 9, "");
        let width = browser.evaluate("getComputedStyle(document.activeElement).outlineWidth");
        assert_eq!(width, "3px", "the element with the focus has no outline");
        if browser.evaluate(&format!("document.activeElement.matches('{wanted}')")) == true {
            return;
        }
    }
    panic!("no key leads to {wanted}");
}

#[test]
fn timeline_works_with_a_keyboard_only() {
    let place = CaptureDir::make();
    let page = page(&place);
    let Some(mut browser) = Browser::open(&page) else { return skip("there is no chromium here") };
    let all = shown(&mut browser);
    assert_eq!(all, (0.0, 1000.0));
    let range = "document.getElementById('shown').textContent";
    let whole = browser.evaluate(range);
    // The buttons come before the timeline in the order of Tab.
    tab_to(&mut browser, "[data-zoom=in]");
    browser.press("Enter", 13, "\r");
    assert_eq!(shown(&mut browser), (250.0, 500.0));
    assert_ne!(browser.evaluate(range), whole, "the page does not describe the new range");
    tab_to(&mut browser, "[data-zoom=right]");
    browser.press(" ", 32, " ");
    assert_eq!(shown(&mut browser), (375.0, 500.0));
    tab_to(&mut browser, "#timeline");
    let steps = [
        ("0", 48, "0", all),
        ("+", 187, "+", (250.0, 500.0)),
        ("+", 187, "+", (375.0, 250.0)),
        ("ArrowLeft", 37, "", (312.5, 250.0)),
        ("ArrowRight", 39, "", (375.0, 250.0)),
        ("-", 189, "-", (250.0, 500.0)),
        ("-", 189, "-", all),
        // The view does not go beyond the ends.
        ("ArrowLeft", 37, "", all),
    ];
    for (key, number, text, expected) in steps {
        browser.press(key, number, text);
        assert_eq!(shown(&mut browser), expected, "{key}");
    }
    assert_eq!(browser.evaluate(range), whole);
    // A screen reader gets a description of the drawing.
    let label = browser.evaluate("document.getElementById('timeline').getAttribute('aria-label')");
    assert!(label.as_str().is_some_and(|label| label.contains("latency")), "{label}");
}

#[test]
fn printed_page_is_readable() {
    let place = CaptureDir::make();
    let page = page(&place);
    let Some(mut browser) = Browser::open(&page) else { return skip("there is no chromium here") };
    let dark = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    browser.command("Emulation.setEmulatedMedia", &json!({ "media": "print", "features": dark }));
    // The printed page is black on white, also in dark mode, and without elements that only work on a screen.
    let style = |of: &str, what: &str| format!("getComputedStyle(document.querySelector('{of}')).{what}");
    for (of, what, expected) in [
        ("body", "color", "rgb(0, 0, 0)"),
        ("body", "backgroundColor", "rgb(255, 255, 255)"),
        (".keys", "display", "none"),
        ("thead", "display", "table-header-group"),
        ("tr", "breakInside", "avoid"),
    ] {
        assert_eq!(browser.evaluate(&style(of, what)), expected, "{what} of {of}");
    }
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.evaluate(fits), true, "something is cut off at the edge");
    let printed = browser.command("Page.printToPDF", &json!({ "paperWidth": 8.27, "paperHeight": 11.69 }));
    let printed = decode(&printed["data"], &artefacts().join("printed.pdf"));
    assert!(printed.starts_with(b"%PDF-") && printed.len() > 10_000, "{} bytes", printed.len());
    let words = browser.evaluate("document.body.innerText");
    let words = words.as_str().unwrap();
    for word in ["Incidents", "shop/db-0", "Calls that were slow, failed or hung", "Pod events"] {
        assert!(words.contains(word), "{word}");
    }
}
