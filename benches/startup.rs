//! Measures the time to start the program without work.

pub mod support;

use support::process::{PLEGCTL, wall};
use support::{figure, heading, in_turn, mebibytes, ratio};

const TURNS: usize = 200;

fn main() {
    heading("start-up, whole process", "startup");
    for argument in ["--version", "--help"] {
        let (ours, nothing) = in_turn(TURNS, || wall(PLEGCTL, &[argument]), || wall("/bin/true", &[]));
        ratio(&format!("plegctl {argument}"), &ours, "/bin/true", &nothing);
    }
    let size = std::fs::metadata(PLEGCTL).expect("the binary is there").len();
    figure("size of the binary (bench profile, not the static one)", &mebibytes(size));
}
