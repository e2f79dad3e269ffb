//! What names of functions mean: the rows of `functions.txt`.

use std::sync::LazyLock;

/// The parts of names that have one meaning.
pub struct FunctionRow {
    parts: Vec<&'static str>,
    /// The meaning.
    pub meaning: &'static str,
}

impl FunctionRow {
    /// Whether `fits` is true for a part.
    pub fn fits(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.parts.iter().any(|part| fits(part))
    }
}

/// The locks for which functions wait.
pub static LOCKS: LazyLock<Vec<FunctionRow>> = LazyLock::new(|| section("[locks]"));
/// The programs in which functions occur.
pub static DAEMONS: LazyLock<Vec<FunctionRow>> = LazyLock::new(|| section("[daemons]"));
/// Libraries that do not show what a program does.
pub static LIBRARIES: LazyLock<Vec<FunctionRow>> = LazyLock::new(|| section("[libraries]"));
/// Types of which a daemon has only one object.
pub static SINGLE_OBJECTS: LazyLock<Vec<FunctionRow>> = LazyLock::new(|| section("[single objects]"));

/// Reads the rows of a section.
fn section(name: &str) -> Vec<FunctionRow> {
    let lines = include_str!("functions.txt").lines().skip_while(|line| *line != name).skip(1);
    let rows = lines.map_while(|line| line.split_once(" -- "));
    rows.map(|(parts, meaning)| FunctionRow { parts: parts.split(' ').collect(), meaning }).collect()
}

/// Returns the meaning of the first row of which `fits` is true for a part.
pub fn meaning(rows: &[FunctionRow], fits: impl Fn(&str) -> bool) -> Option<&'static str> {
    rows.iter().find(|row| row.fits(&fits)).map(|row| row.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Daemon;

    #[test]
    fn every_row_of_the_table_belongs_to_a_section() {
        let sections = [&LOCKS, &DAEMONS, &LIBRARIES, &SINGLE_OBJECTS].map(|rows| rows.len());
        let lines = include_str!("functions.txt").lines().filter(|line| !line.starts_with('#'));
        let rows = lines.filter(|line| line.contains(" -- ")).count();
        assert_eq!(sections.iter().sum::<usize>(), rows);
        assert!(DAEMONS.iter().all(|row| Daemon::parse(row.meaning).is_some()));
    }
}
