//! The HTML page of a capture's report: it needs no other file, and a browser shows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::browser::{ALONE, Browser};
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::plegctl::plegctl;

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
fn picture(page: &Path, to: &Path, more: &[&str]) -> bool {
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

/// The directory for the screenshots, so that a person can look at them.
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
        if !picture(&page, &to, more) {
            return skip("there is no chromium here");
        }
        let drawn = fs::read(&to).unwrap();
        assert!(drawn.starts_with(b"\x89PNG") && drawn.len() > 20_000, "{name}: {} bytes", drawn.len());
    }
}

/// The visible part of the timeline: its start and its width.
fn shown(browser: &mut Browser) -> (f64, f64) {
    let shown = browser.evaluate("document.getElementById('timeline').getAttribute('viewBox')");
    let numbers: Vec<f64> =
        shown.as_str().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[2])
}

/// Presses Tab until this element has the focus; each focused element is visible on the way.
fn tab_to(browser: &mut Browser, wanted: &str) {
    for _ in 0..20 {
        browser.press("Tab", 9, "");
        let width = browser.evaluate("getComputedStyle(document.activeElement).outlineWidth");
        assert_eq!(width, "3px", "what has the focus cannot be seen");
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
    // The buttons come first, and the test presses them as a user would.
    tab_to(&mut browser, "[data-zoom=in]");
    browser.press("Enter", 13, "\r");
    assert_eq!(shown(&mut browser), (250.0, 500.0));
    assert_ne!(browser.evaluate(range), whole, "what is shown is said");
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
    browser.ask("Emulation.setEmulatedMedia", &json!({ "media": "print", "features": dark }));
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
    let printed = browser.ask("Page.printToPDF", &json!({ "paperWidth": 8.27, "paperHeight": 11.69 }));
    let encoded = place.path("printed");
    fs::write(&encoded, printed["data"].as_str().unwrap()).unwrap();
    let printed = Command::new("base64").arg("-d").arg(encoded).output().unwrap().stdout;
    assert!(printed.starts_with(b"%PDF-") && printed.len() > 10_000, "{} bytes", printed.len());
    fs::write(artefacts().join("printed.pdf"), printed).unwrap();
    let words = browser.evaluate("document.body.innerText");
    let words = words.as_str().unwrap();
    for word in ["Incidents", "shop/db-0", "Calls that were slow, failed or hung", "Pod events"] {
        assert!(words.contains(word), "{word}");
    }
}
