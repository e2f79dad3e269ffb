//! Fuzz targets: random mutations of input from outside. No reader may panic, hang or use unbounded memory.
//!
//! Each target is a test. It first tries the files in `fuzz/corpus/TARGET/` and its own seeds unchanged, then mutates
//! them for two seconds, or for the time in `PLEGCTL_FUZZ`:
//!
//! ```text
//! PLEGCTL_FUZZ=30m cargo test --test product slow::fuzz::manifests -- --nocapture
//! ```
//!
//! Without a time, the mutations are the same in each run; with a time they differ (`PLEGCTL_FUZZ_SEED` repeats them).
//! A failing input is kept in the temporary directory, and its path is printed. After the fix, the reduced input goes
//! into the corpus. To add a format, add a file here with a function that takes bytes, list it under `mod`, and give it
//! a few small seeds.

mod capture_costs;
mod captures;
mod command_lines;
mod cri_answers;
mod http2;
mod impostors;
mod journals;
mod kubeconfigs;
mod kubelet;
mod manifests;
mod mutate;
mod proc_trees;
mod reports;
mod scenarios;
mod stacks;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mutate::Random;

use crate::support::plegctl;

/// The default duration of a target.
const SHORT: Duration = Duration::from_secs(2);

/// The time limit for one input: far more than any input needs, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The largest size of a mutated input.
const LONGEST: usize = 64 * 1024;

/// Runs `check` on the seeds and on their mutations.
pub fn fuzz(target: &str, mut seeds: Vec<Vec<u8>>, mut check: impl FnMut(&[u8])) {
    let time = std::env::var("PLEGCTL_FUZZ").ok();
    let length = time.as_deref().map_or(SHORT, |text| humantime::parse_duration(text).unwrap());
    let seed = match (std::env::var("PLEGCTL_FUZZ_SEED"), time) {
        (Ok(seed), _) => seed.parse().unwrap(),
        (Err(_), Some(_)) => std::process::id().into(),
        (Err(_), None) => 1,
    };
    seeds.extend(corpus(target));
    assert!(!seeds.is_empty(), "{target} has no seed");
    // plegctl catches some panics itself (crates/base/src/panics.rs). Such a panic is no failure, so the hook prints nothing.
    std::panic::set_hook(Box::new(|_| {}));
    let mut random = Random::new(seed);
    let began = Instant::now();
    let mut cases: u64 = 0;
    for seed in &seeds {
        try_input(target, seed, &mut check);
        cases += 1;
    }
    while began.elapsed() < length {
        let input = mutate::mutated(&seeds, &mut random, LONGEST);
        try_input(target, &input, &mut check);
        cases += 1;
    }
    // Not `println!`: the test harness captures its output in tests that pass.
    let _ = writeln!(
        std::io::stderr(),
        "fuzz {target}: {cases} cases in {:.0?}, seed {seed}, no failure",
        began.elapsed()
    );
}

/// Runs the program on files: it must end by itself, without a crash and without printing a terminal escape sequence.
pub fn assert_shows(words: &[&str], files: &[&str]) {
    let output = plegctl::command(env!("CARGO_BIN_EXE_plegctl"))
        .args(words)
        .args(files)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{words:?}: {}: {text}", output.status);
    assert!(!text.contains("fault:"), "{words:?}: {text}");
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!text.contains(is_control), "{words:?}: {text:?}");
}

/// Returns the files in `fuzz/corpus/TARGET/`.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs `check` on one input. If it panics or takes too long, saves the input and fails the test.
fn try_input(target: &str, input: &[u8], check: &mut impl FnMut(&[u8])) {
    let began = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| check(input)));
    let took = began.elapsed();
    if ended.is_err() || took > TIME_LIMIT {
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        let kept = std::env::temp_dir().join(format!("plegctl-fuzz-{target}-{:016x}", hasher.finish()));
        fs::write(&kept, input).unwrap();
        let _ = writeln!(std::io::stderr(), "fuzz {target}: {} fails after {took:?}", kept.display());
        let words = match &ended {
            Err(panic) => {
                panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied())
            }
            Ok(()) => Some("it takes too long"),
        };
        let _ = writeln!(std::io::stderr(), "fuzz {target}: {}", words.unwrap_or("no reason given"));
        resume_unwind(Box::new("see above"));
    }
}
