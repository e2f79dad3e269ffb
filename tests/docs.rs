//! The sessions that the documents show are what the program prints.
//!
//! A block is introduced by `<!-- run: plegctl … -->`. Figures that no two runs share (durations, ages, times of day)
//! are compared by their presence only. After `<!-- sample: plegctl … -->` what happens depends on the moment, so that
//! only the kinds of lines are compared. After a change: `PLEGCTL_BLESS=1 cargo test --test docs`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

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
        let essence = if open == SAMPLE { kinds } else { masked };
        let block = rest[line_end..].strip_prefix(FENCE).expect("a console block follows");
        let block_end = block.find("```\n").expect("the block ends");
        let printed = format!("$ plegctl {arguments}\n{}", run(arguments));
        if essence(&printed) == essence(&block[..block_end]) {
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &block[..block_end];
        } else {
            stale.push(format!("plegctl {arguments}\n{}", essence(&printed)));
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &printed;
        }
        rest = &block[block_end..];
    }
    fresh += rest;
    if env::var_os("PLEGCTL_BLESS").is_some() {
        fs::write(&path, fresh).unwrap();
    } else {
        assert!(stale.is_empty(), "{document} shows something else than\n{}", stale.join("\n"));
    }
}

fn run(arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_plegctl"))
        .args(arguments.split_whitespace())
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// One word for each figure that differs between runs, one blank for any number of them.
fn masked(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with('≤')).map(|line| words(line) + "\n").collect()
}

/// The first words of the lines, each once.
fn kinds(text: &str) -> String {
    let masked = masked(text);
    let kinds: BTreeSet<&str> = masked.lines().filter_map(|line| line.split(' ').next()).collect();
    kinds.into_iter().collect::<Vec<_>>().join("\n")
}

fn words(line: &str) -> String {
    let words: Vec<&str> =
        line.split_whitespace().map(|word| if is_figure(word) { "#" } else { word }).collect();
    words.join(" ")
}

/// A word that is nothing but digits, points, colons, signs and units of time or size.
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
fn figures_are_masked_and_names_are_not() {
    assert_eq!(words("relist 4.12ms  (1 B)  web-0 3m20s 12:03:04.512"), "relist # # B) web-0 # #");
}
