//! The page of a post-mortem: it needs nothing else, and a browser draws it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::plegctl::plegctl;
use crate::{Place, record, skip, word};

fn page(place: &Place) -> PathBuf {
    let directory = place.path("capture");
    record("sim:hung-container", &directory, &["--period", "500ms", "--for", "6s", "--slow", "1s"]);
    let output = plegctl(&["capture", "report", word(&directory), "-o", "html"]);
    assert_eq!(output.code, Some(0), "{output}");
    let file = place.path("report.html");
    fs::write(&file, output.stdout).unwrap();
    file
}

#[test]
fn the_page_asks_nobody_for_anything() {
    let place = Place::make();
    let text = fs::read_to_string(page(&place)).unwrap();
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("default-src 'none'"));
    assert!(text.contains("class=\"call silent\"") || text.contains("class=\"call open\""));
    assert!(text.contains("shop/db-0"));
}

/// Takes a picture of the page; false if there is no browser.
fn picture(page: &Path, to: &Path, more: &[&str]) -> bool {
    let place = Place::make();
    let run = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1200,1400",
        ])
        .args(more)
        .arg(format!("--user-data-dir={}", word(&place.path("profile"))))
        .arg(format!("--screenshot={}", word(to)))
        .arg(format!("file://{}", word(page)))
        .output();
    match run {
        Err(_) => false,
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

#[test]
fn a_browser_draws_the_page_light_and_dark() {
    let place = Place::make();
    let page = page(&place);
    // Kept, so that somebody can look at them.
    let artefacts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capture-report");
    fs::create_dir_all(&artefacts).unwrap();
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
