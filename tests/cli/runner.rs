//! The process runner tells what became of the program.

use crate::support::plegctl::plegctl;

#[test]
fn output_shows_both_streams_and_the_status() {
    let output = plegctl(&["--no-such-flag"]);
    let shown = output.to_string();
    assert!(shown.contains("--no-such-flag") && shown.contains("--- stdout") && shown.contains("--- stderr"));
}
