//! Measures the status calls for every pod: one call at a time compared with eight.

pub mod support;
#[path = "support/target.rs"]
pub mod target;

use clap::Parser;
use support::process::{PLEGCTL, wall};
use support::{heading, in_turn, once, ratio};
use target::{Options, Target};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(node) = Target::real(&arguments.options) {
        side_by_side(&node, Some(11));
    }
    // One turn is enough: the simulated delays are always the same, and a serial pass takes almost a minute.
    side_by_side(&Target::simulated("slow-disk"), None);
}

/// Measures `relist --inspect all` with eight calls at a time, and with one.
fn side_by_side(target: &Target, turns: Option<usize>) {
    heading(&format!("plegctl relist --inspect all, whole process, {}", target.name), "status_pass");
    let endpoint = target.endpoint();
    let pass = |how: &[&str]| {
        let all = [&["relist", "-r", &endpoint, "--inspect", "all", "-o", "jsonl", "--timeout", "30s"], how]
            .concat();
        wall(PLEGCTL, &all)
    };
    let eight = || pass(&["--concurrency", "8"]);
    let serial = || pass(&["--serial"]);
    let (eight, serial) = turns.map_or_else(|| once(eight, serial), |turns| in_turn(turns, eight, serial));
    ratio("--concurrency 8", &eight, "--serial", &serial);
}
