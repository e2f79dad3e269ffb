//! The sessions in the documents show what the program prints. A block follows `<!-- run: plegctl … -->`. Figures that
//! differ between runs (durations, ages, times of day) are only compared by their presence. After `<!-- sample: plegctl
//! … -->`, events and calls depend on the moment, so their content and number are not compared; all other lines are.
//! After a change, `PLEGCTL_BLESS=1 cargo test --test product docs -- --nocapture` shows the difference.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use crate::support::{difference, plegctl};

const RUN: &str = "<!-- run: plegctl ";
const SAMPLE: &str = "<!-- sample: plegctl ";
const FENCE: &str = "```console\n";

/// Runs every block of `document` again.
fn check(document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(&path).unwrap();
    let mut fresh = String::new();
    let mut rest = text.as_str();
    let mut stale = Vec::new();
    while let Some((start, open)) =
        [RUN, SAMPLE].into_iter().filter_map(|open| Some((rest.find(open)?, open))).min()
    {
        let line_end = start + rest[start..].find("-->\n").expect("the comment ends") + "-->\n".len();
        let arguments = rest[start + open.len()..line_end - "-->\n".len()].trim();
        let essence = if open == SAMPLE { lines } else { masked };
        let block = rest[line_end..].strip_prefix(FENCE).expect("a console block follows");
        let block_end = block.find("```\n").expect("the block ends");
        let printed = format!("$ plegctl {arguments}\n{}", run(arguments));
        if essence(&printed) == essence(&block[..block_end]) {
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &block[..block_end];
        } else {
            let changed = difference::difference(&essence(&block[..block_end]), &essence(&printed));
            stale.push(format!("plegctl {arguments}\n{changed}"));
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &printed;
        }
        rest = &block[block_end..];
    }
    fresh += rest;
    let blessed = difference::blessed(&path, &fresh);
    assert!(blessed || stale.is_empty(), "{document} shows something else:\n{}", stale.join("\n"));
}

fn run(arguments: &str) -> String {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    // The figures are masked, so a shorter silence has the same text.
    let text = plegctl::Invocation::new(&words).with_short_silences().run().stdout;
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Replaces each figure that differs between runs with one word, and several blanks with one.
fn masked(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with('≤')).map(|line| words(line) + "\n").collect()
}

/// The sorted lines without repetitions. Events and calls are reduced to their presence.
fn lines(text: &str) -> String {
    let masked = masked(text);
    let lines: BTreeSet<&str> = masked.lines().map(without_the_moment).collect();
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// The part of a line that does not depend on the moment.
fn without_the_moment(line: &str) -> &str {
    let second = line.split(' ').nth(1).unwrap_or_default();
    let is_call = second.starts_with("List") || second.contains("Status");
    match line.split(' ').next() {
        Some("#") if second.contains('/') => "an event",
        Some("#") if is_call => "a call",
        Some("slowest") => "slowest",
        Some("events") => "events",
        _ => line,
    }
}

fn words(line: &str) -> String {
    let words: Vec<&str> =
        line.split_whitespace().map(|word| if is_figure(word) { "#" } else { word }).collect();
    words.join(" ")
}

/// Whether a word has only digits, points, colons, signs and units of time or size.
fn is_figure(word: &str) -> bool {
    let word = word.trim_matches(|edge: char| "(),;~≈".contains(edge));
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || ".:+-%µmsdhyTZ".contains(letter))
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    check("README.md");
}

#[test]
fn the_walkthrough_shows_what_the_program_prints() {
    check("docs/walkthrough.md");
}

#[test]
fn masking_replaces_figures_and_keeps_names() {
    assert_eq!(words("relist 4.12ms  (1 B)  web-0 3m20s 12:03:04.512"), "relist # # B) web-0 # #");
}

#[test]
fn samples_are_compared_except_for_their_times() {
    let first =
        "12:00:01.5  first relist took 5ms: 16 pods\n12:00:02  shop/a  x  running → exited\nevents  A 1\n";
    let later = "11:00:01.5  first relist took 9ms: 17 pods\n11:00:02  shop/b  y  exited → running\n\
        11:00:03  shop/b  z  exited → running\nevents  B 2\n";
    assert_eq!(lines(first), lines(later));
    assert_ne!(lines(first), lines(&later.replace("first relist took", "relist 1 took")));
}
