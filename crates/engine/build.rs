//! Lists the built-in scenarios for `each_scenario!`, so that a new scenario is one file.

use std::error::Error;
use std::{env, fs};

const FOLDER: &str = "../../src/sim/scenarios";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={FOLDER}");
    let files = fs::read_dir(FOLDER)?.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
    let mut files = files.collect::<Result<Vec<String>, Box<dyn Error>>>()?;
    files.sort_unstable();
    let names = files.iter().filter_map(|file| file.strip_suffix(".yaml"));
    let rows =
        names.map(|name| format!("{}: {name:?}, ", name.replace('-', "_"))).collect::<Vec<_>>().concat();
    let text = format!(
        "/// Calls a macro with `test_name: \"scenario\",` for each built-in scenario, in alphabetical order.
        #[cfg_attr(feature = \"testing\", macro_export)]
        macro_rules! each_scenario {{ ($macro:ident) => {{ $macro! {{ {rows}}} }}; }}"
    );
    Ok(fs::write(format!("{}/each_scenario.rs", env::var("OUT_DIR")?), text)?)
}
