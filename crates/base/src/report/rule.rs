//! [`Rule`]: the texts that explain a rule, a check or a signature. `explain` and the reports use them.

/// One row of a catalogue. Each catalogue is in the module that applies its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id: `D01`, `SP053`, `ST01`.
    pub id: &'static str,
    /// A short title.
    pub title: &'static str,
    /// The meaning for the node.
    pub means: &'static str,
    /// How the problem shows.
    pub shows: &'static str,
    /// Commands and places that confirm the finding.
    pub confirm: &'static [&'static str],
    /// What the user must not conclude.
    pub never: &'static [&'static str],
    /// The steps to take, in order.
    pub act: &'static [&'static str],
}

impl Rule {
    /// A rule without texts, for an id that is missing in its table. The tests of each table check that no id is missing.
    pub const MISSING: &Self =
        &Self { id: "", title: "", means: "", shows: "", confirm: &[], never: &[], act: &[] };

    /// Reads a table of rules, such as `goroutines/src/signatures.txt`. Each block of the table has a line `[ID] title` and lines
    /// `key: value`. The lists are never freed, because the text of the table stays in memory too.
    pub fn table(table: &'static str) -> Vec<Self> {
        let rule = |block: &'static str| {
            let (id, title) = block.strip_prefix('[')?.lines().next()?.split_once("] ")?;
            let values =
                |key| block.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix(": "));
            let text = |key| values(key).next().unwrap_or_default();
            let list = |key| &*values(key).collect::<Vec<_>>().leak();
            let (means, shows) = (text("means"), text("shows"));
            Some(Self {
                id,
                title,
                means,
                shows,
                confirm: list("confirm"),
                never: list("never"),
                act: list("next"),
            })
        };
        table.split("\n\n").filter_map(rule).collect()
    }
}
