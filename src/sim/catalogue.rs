//! The built-in scenarios. Loads a scenario by the name of a built-in one or by the path of a file.

use std::path::Path;

use super::format::read;
use super::{Error, Malformed, Scenario};
use crate::report::{load, most_similar};

/// The largest scenario file that is read, in bytes. A scenario is about a page of text.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Defines the table of the built-in scenarios, each with its name and the text of its file.
macro_rules! built_in {
    ($($test:ident: $name:literal,)*) => {
        &[$(($name, include_str!(concat!("scenarios/", $name, ".yaml")))),*]
    };
}

/// The name and the text of each built-in scenario, in alphabetical order.
const BUILT_IN: &[(&str, &str)] = each_scenario!(built_in);

/// Returns the names of the built-in scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Parses every built-in scenario. The order is that of the rules that find them; those that no rule finds come first.
pub fn built_in() -> Result<Vec<Scenario>, Malformed> {
    let parsed = BUILT_IN.iter().map(|(name, text)| read(name, text.as_bytes()));
    let mut scenarios: Vec<Scenario> = parsed.collect::<Result<_, _>>()?;
    scenarios.sort_by(|one, other| one.finds.cmp(&other.finds));
    Ok(scenarios)
}

/// Loads the scenario `name_or_path`: a built-in one by its name, a file by a path with a slash or an extension.
pub fn load(name_or_path: &str) -> Result<Scenario, Error> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return Ok(read(name, text.as_bytes())?);
    }
    let path = Path::new(name_or_path);
    if name_or_path.contains('/') || path.extension().is_some() {
        let text = load::load(path, MAX_FILE_BYTES)
            .map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        return Ok(read(&path.display().to_string(), &text)?);
    }
    Err(Error::UnknownScenario {
        name: name_or_path.to_owned(),
        nearest: most_similar(name_or_path, names()).map(str::to_owned),
        known: names().map(str::to_owned).collect(),
    })
}
