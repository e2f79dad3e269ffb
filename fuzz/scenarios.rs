//! Fuzzes scenario files of the simulated runtime.

use std::fs;

use plegctl_engine::sim;

use super::fuzz;
use crate::support::socket::TempDir;

#[test]
fn scenarios() {
    let folder = TempDir::new();
    let path = folder.path().join("scenario.yaml");
    let name = path.to_str().unwrap().to_owned();
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/scenarios");
    let seeds = fs::read_dir(built_in).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    fuzz("scenarios", seeds.collect(), |bytes| {
        fs::write(&path, bytes).unwrap();
        if let Err(why) = sim::load(&name) {
            assert!(!why.to_string().is_empty());
        }
    });
}
