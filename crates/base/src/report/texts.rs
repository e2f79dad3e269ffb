//! [`TextTable`]: the texts of findings, from a table with a row for each thing that can be wrong.

use std::collections::HashMap;
use std::fmt::Display;

use super::{Confidence, Severity};

/// The values for the places of a row, such as `{path}`.
pub type Places<'a> = [(&'a str, &'a dyn Display)];

/// The rows by name: the other words of the first line, and the other lines. The first line of a row is its name, and for a
/// finding the id of its check, and a severity and a confidence if they are not the usual ones. The message follows, and perhaps
/// `kubelet: ` with the kubelet's message and `fix: ` with a fix.
pub struct TextTable(HashMap<&'static str, (&'static str, &'static str)>);

/// The texts of a finding.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FilledTexts {
    /// The id of the check; empty if the row is not about a check.
    pub id: &'static str,
    /// The severity, if it is not that of the check.
    pub severity: Option<Severity>,
    /// The confidence, if the finding is not certain.
    pub confidence: Option<Confidence>,
    /// The problem, in plain words.
    pub message: String,
    /// The kubelet's message.
    pub reason: Option<String>,
    /// What the user can do.
    pub fix: Option<String>,
}

impl TextTable {
    /// Reads a table, in which an empty line follows each row.
    pub fn read(table: &'static str) -> Self {
        let rows = table.split("\n\n").filter_map(|row| row.split_once('\n'));
        let row = |(heading, lines): (&'static str, &'static str)| {
            let (name, words) = heading.split_once(' ').unwrap_or((heading, ""));
            (name, (words, lines))
        };
        Self(rows.map(row).collect())
    }

    /// Fills the places of a row. The texts are empty if there is no such row, which a test excludes.
    pub fn filled(&self, name: &str, places: &Places<'_>) -> FilledTexts {
        let (words, lines) = self.0.get(name).copied().unwrap_or_default();
        let (mut words, mut lines) = (words.split(' '), lines.lines());
        let mut texts = FilledTexts {
            id: words.next().unwrap_or_default(),
            message: filled(lines.next().unwrap_or_default(), places),
            ..FilledTexts::default()
        };
        for word in words {
            match word {
                "error" => texts.severity = Some(Severity::Error),
                "warning" => texts.severity = Some(Severity::Warning),
                "info" => texts.severity = Some(Severity::Info),
                "likely" => texts.confidence = Some(Confidence::Likely),
                _ => texts.confidence = Some(Confidence::Possible),
            }
        }
        for line in lines {
            match line.split_once(": ") {
                Some(("kubelet", text)) => texts.reason = Some(filled(text, places)),
                Some((_, text)) => texts.fix = Some(filled(text, places)),
                None => {}
            }
        }
        texts
    }
}

fn filled(text: &str, places: &Places<'_>) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = places.iter().find(|(place, _)| *place == name);
        debug_assert!(value.is_some(), "no value for {name} in `{text}`");
        filled.extend(value.map(|(_, value)| value.to_string()));
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn each_place_of_a_row_gets_its_value() {
        let table =
            TextTable::read("# A comment.\n\none SP001 info likely\n{a} of {b}\nfix: {a}\nkubelet: c: d\n");
        let places: &Places<'_> = &[("b", &2), ("a", &"{b}")];
        let texts = FilledTexts {
            id: "SP001",
            severity: Some(Severity::Info),
            confidence: Some(Confidence::Likely),
            message: "{b} of 2".to_owned(),
            reason: Some("c: d".to_owned()),
            fix: Some("{b}".to_owned()),
        };
        assert_eq!(table.filled("one", places), texts);
        assert_eq!(table.filled("two", places), FilledTexts::default());
    }

    /// Returns the texts of the sources in a folder, without their tests.
    fn sources(folder: &Path) -> Vec<String> {
        let mut texts = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("test")) {
                continue;
            }
            if entry.is_dir() {
                texts.extend(sources(&entry));
            } else if entry.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(entry).unwrap();
                texts.push(text.split("#[cfg(test)]").next().unwrap().to_owned());
            }
        }
        texts
    }

    #[test]
    fn each_row_of_a_table_belongs_to_one_source_which_has_values_for_its_places() {
        let tables: [(&str, &[&str]); 2] = [
            ("kubelet-start", &["findings.txt"]),
            ("static-pods", &["findings.txt", "podconfig/reasons.txt"]),
        ];
        for (name, tables) in tables {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
            let sources = sources(&folder);
            let texts = tables.iter().map(|table| fs::read_to_string(folder.join(table)).unwrap());
            let texts: Vec<String> = texts.collect();
            let rows = texts.iter().flat_map(|table| table.split("\n\n").skip(1));
            for row in rows.clone() {
                let name = row.split_whitespace().next().unwrap();
                let uses = |source: &&String| source.contains(&format!("\"{name}\""));
                let [source] = sources.iter().filter(uses).collect::<Vec<_>>()[..] else { panic!("{name}") };
                for place in row.split('{').skip(1).map(|part| part.split_once('}').unwrap().0) {
                    assert!(source.contains(&format!("(\"{place}\", ")), "{place} of {name}");
                }
                let is_known = |line: &str| line.starts_with("kubelet: ") || line.starts_with("fix: ");
                assert!(row.lines().skip(2).all(is_known), "{row}");
                for word in row.lines().next().unwrap().split(' ').skip(2) {
                    assert!(["error", "warning", "info", "likely", "possible"].contains(&word), "{row}");
                }
            }
            // Each name that the sources pass together with places is that of a row.
            let names: Vec<&str> = rows.map(|row| row.split_whitespace().next().unwrap()).collect();
            for source in &sources {
                let parts: Vec<&str> = source.split('"').collect();
                let is_name = |end: &str| {
                    end.starts_with(", &[(") || end.starts_with(", &[])") || end.starts_with(", places)")
                };
                for pair in parts.windows(2).filter(|pair| is_name(pair[1])) {
                    assert!(names.contains(&pair[0]), "{} is no row", pair[0]);
                }
            }
        }
    }
}
