//! The feature gates, flags and configuration fields that each kubelet release knows, read from `tables.txt`.
//!
//! The format of `tables.txt`, section by section:
//!
//! * `[gates]`: a name and its changes. A change has the first minor release in which it holds, the stage (`a` alpha, `b`
//!   beta, `g` GA, `d` deprecated), the default (`0` off, `1` on) and `!` if the gate is locked. So `29g1!` means: from 1.29
//!   on GA, on and locked. `33-` means: unknown from 1.33 on. A change without a number holds from the first release of the
//!   table on. A change with `?` at its end was read in release notes and not in the code. `38~` means: release notes say
//!   that Kubernetes 1.38 removed the gate, but not whether the kubelet still knows it.
//! * `[flags]`: a name, the type of its value, the configuration field that it sets (`.` for none), and its changes: `+`
//!   known, `d` deprecated, `-` unknown.
//! * `[needs]`: a gate, the releases (`35` from 1.35 on, `35-35` only 1.35), and the gates that must be on if it is on.
//! * `[fields]`: a path, its Go type and the first minor release that knows the field.
//! * The other sections: names.
//!
//! A release outside the tables is judged by the nearest one in them.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use plegctl_node::kubelet::KubeletVersion;

/// The minor releases in the tables.
pub const RELEASES: RangeInclusive<u8> = KubeletVersion::OLDEST.minor()..=KubeletVersion::NEWEST.minor();

/// The tables of gates, flags and fields.
pub struct Tables {
    gates: HashMap<&'static str, Gate>,
    flags: HashMap<&'static str, Flag>,
    needs: Vec<GateNeed>,
    fields: Vec<Field>,
    /// The index of each path in `fields`.
    paths: HashMap<&'static str, usize>,
    /// The names of the other sections, each with its section.
    names: HashSet<(&'static str, &'static str)>,
}

/// The releases that changed a feature gate.
pub type Gate = History<GateState>;

/// The state of a gate in one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// The stage.
    pub stage: Stage,
    /// Whether the gate is on by default.
    pub default: bool,
    /// Whether the kubelet refuses any value except the default.
    pub locked: bool,
}

/// The stage of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// New, and off by default.
    Alpha,
    /// Usually on by default.
    Beta,
    /// Final: on, and removed some releases later.
    Ga,
    /// Still known, but a later release removes it.
    Deprecated,
}

/// A gate that may be on only if other gates are on too.
#[derive(Debug)]
pub struct GateNeed {
    /// The gate.
    pub gate: &'static str,
    /// The other gates.
    pub needed: Vec<&'static str>,
    /// The minor releases that have this rule.
    releases: RangeInclusive<u8>,
}

/// The history of a flag.
#[derive(Debug)]
pub struct Flag {
    /// The type of its value.
    pub kind: FlagKind,
    /// The configuration field that the flag sets.
    pub field: Option<&'static str>,
    /// The releases that changed the flag.
    pub history: History<FlagState>,
}

/// The minor releases that changed a gate or a flag, oldest first.
#[derive(Debug)]
pub struct History<T>(Vec<Change<T>>);

/// A change of a gate or a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// The first minor release with the new state.
    pub minor: u8,
    /// What is known about the new state.
    pub known: Known,
    state: Option<T>,
}

/// What is known about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The change was read in the code.
    Certainly,
    /// The change was read in release notes.
    FromNotes,
    /// Release notes say that Kubernetes has removed the gate, but not whether the kubelet still knows it.
    NotOfKubelet,
}

/// The state of a flag in one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagState {
    /// The release knows the flag.
    Known,
    /// The release knows the flag, but logs that it is deprecated.
    Deprecated,
}

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// A boolean. `--flag` without a value means true.
    Bool,
    /// An integer of this many bits.
    Int(u8),
    /// A duration.
    Duration,
    /// Any other type.
    Text,
}

/// A field of the configuration file.
#[derive(Debug)]
pub struct Field {
    /// The path, with `[]` for an element of a list.
    pub path: &'static str,
    /// The type in Go.
    pub go_type: &'static str,
    /// The first minor release that knows the field.
    pub since: u8,
}

impl Tables {
    /// Returns the tables, which are parsed at the first call.
    pub fn get() -> &'static Self {
        const TEXT: &str = include_str!("tables.txt");
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(|| Self::parse(TEXT))
    }

    fn parse(text: &'static str) -> Self {
        let mut tables = Self {
            gates: HashMap::new(),
            flags: HashMap::new(),
            needs: Vec::new(),
            fields: Vec::new(),
            paths: HashMap::new(),
            names: HashSet::new(),
        };
        let mut section = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let Some(name) = words.next() else { continue };
            match section {
                _ if name.starts_with('[') => section = name,
                "[gates]" => {
                    tables.gates.insert(name, History(words.map(|word| change(word, gate_state)).collect()));
                }
                "[flags]" => {
                    let kind = flag_kind(words.next().unwrap_or_default());
                    let field = words.next().filter(|field| *field != ".");
                    let history = History(words.map(|word| change(word, flag_state)).collect());
                    tables.flags.insert(name, Flag { kind, field, history });
                }
                "[needs]" => {
                    let (first, last) = words
                        .next()
                        .map_or(("", ""), |releases| releases.split_once('-').unwrap_or((releases, "")));
                    let releases = first.parse().unwrap_or(0)..=last.parse().unwrap_or(u8::MAX);
                    tables.needs.push(GateNeed { gate: name, needed: words.collect(), releases });
                }
                "[fields]" => {
                    let go_type = words.next().unwrap_or_default();
                    let since = words.next().and_then(|since| since.parse().ok());
                    tables.paths.insert(name, tables.fields.len());
                    tables.fields.push(Field {
                        path: name,
                        go_type,
                        since: since.unwrap_or(*RELEASES.start()),
                    });
                }
                _ => _ = tables.names.insert((section, name)),
            }
        }
        tables
    }

    /// Returns the gate with this name, if any release in the tables knows the gate.
    pub fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.get(name)
    }

    /// Whether the kubelet accepts this cipher suite of Go's library.
    pub fn is_cipher_suite(&self, name: &str) -> bool {
        self.names.contains(&("[cipher-suites]", name))
    }

    /// Whether a kubelet may set this label below kubernetes.io on its own node.
    pub fn is_label_of_kubelet(&self, key: &str) -> bool {
        self.names.contains(&("[labels]", key))
    }

    /// Whether a configuration with this gate is `OpenShift`'s.
    pub fn is_gate_of_openshift(&self, name: &str) -> bool {
        self.names.contains(&("[openshift]", name))
    }

    /// Returns the gates that a release accepts only together with other gates.
    pub fn needs_of(&self, release: KubeletVersion) -> impl Iterator<Item = &GateNeed> {
        self.needs.iter().filter(move |need| need.releases.contains(&release.known().minor()))
    }

    /// Returns the flag with this name (without dashes), if any release in the tables knows the flag.
    pub fn flag(&self, name: &str) -> Option<&Flag> {
        self.flags.get(name)
    }

    /// Returns the field with this path, if any release in the tables knows the field.
    pub fn field(&self, path: &str) -> Option<&Field> {
        self.paths.get(path).and_then(|index| self.fields.get(*index))
    }

    /// Returns the names of all gates that a release knows.
    pub fn gates_of(&self, release: KubeletVersion) -> impl Iterator<Item = &'static str> {
        self.gates.iter().filter_map(move |(name, gate)| gate.state(release).map(|_| *name))
    }

    /// Returns the names of all flags that a release knows.
    pub fn flags_of(&self, release: KubeletVersion) -> impl Iterator<Item = &'static str> {
        self.flags.iter().filter_map(move |(name, flag)| flag.history.state(release).map(|_| *name))
    }

    /// Returns the names of the fields directly below `parent`, of any release.
    pub fn fields_below(&self, parent: &str) -> impl Iterator<Item = &'static str> {
        let prefix = if parent.is_empty() { String::new() } else { format!("{parent}.") };
        self.fields.iter().filter_map(move |field| {
            let name = field.path.strip_prefix(prefix.as_str())?;
            (!name.contains('.')).then_some(name)
        })
    }
}

impl<T: Copy> History<T> {
    /// Returns the state in a release; `None` if the release does not know the gate or flag.
    pub fn state(&self, release: KubeletVersion) -> Option<T> {
        let judged = self.0.iter().filter(|change| change.known != Known::NotOfKubelet);
        judged.rev().find(|change| release.known().at_least(change.minor)).and_then(|change| change.state)
    }

    /// Returns the change that decides about a release.
    pub fn change(&self, release: KubeletVersion) -> Option<&Change<T>> {
        self.0.iter().rev().find(|change| release.known().at_least(change.minor))
    }

    /// Returns the first minor release in the tables that knows the gate or flag.
    pub fn since(&self) -> u8 {
        self.0.first().map_or(0, |change| change.minor)
    }

    /// Returns the change that removed the gate or flag.
    pub fn removed(&self) -> Option<&Change<T>> {
        self.0.last().filter(|change| change.state.is_none() && change.known != Known::NotOfKubelet)
    }
}

impl Gate {
    /// Returns the change since which the gate is locked up to `release` without interruption.
    pub fn locked_since(&self, release: KubeletVersion) -> Option<&Change<GateState>> {
        let newest_first = self.0.iter().rev().skip_while(|change| !release.known().at_least(change.minor));
        let locked = newest_first.take_while(|change| change.state.is_some_and(|state| state.locked));
        locked.last()
    }
}

/// Parses a change such as `29g1!`: the minor release, and the state that follows.
fn change<T>(word: &str, state: impl Fn(&str) -> Option<T>) -> Change<T> {
    let known = match word.chars().last() {
        Some('?') => Known::FromNotes,
        Some('~') => Known::NotOfKubelet,
        _ => Known::Certainly,
    };
    let word = word.trim_end_matches(['?', '~']);
    let end = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    let (minor, rest) = word.split_at(end);
    Change { minor: minor.parse().unwrap_or(*RELEASES.start()), known, state: state(rest) }
}

fn gate_state(text: &str) -> Option<GateState> {
    let mut letters = text.chars();
    let stage = match letters.next()? {
        'a' => Stage::Alpha,
        'b' => Stage::Beta,
        'g' => Stage::Ga,
        'd' => Stage::Deprecated,
        _ => return None,
    };
    let default = letters.next()? == '1';
    Some(GateState { stage, default, locked: letters.next() == Some('!') })
}

fn flag_state(text: &str) -> Option<FlagState> {
    match text {
        "+" => Some(FlagState::Known),
        "d" => Some(FlagState::Deprecated),
        _ => None,
    }
}

fn flag_kind(text: &str) -> FlagKind {
    match text {
        "b" => FlagKind::Bool,
        "i" => FlagKind::Int(32),
        "I" => FlagKind::Int(64),
        "d" => FlagKind::Duration,
        _ => FlagKind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(minor: u8) -> KubeletVersion {
        KubeletVersion::parse(&format!("1.{minor}")).unwrap()
    }

    #[test]
    fn each_release_has_the_expected_numbers_of_gates_flags_and_fields() {
        let gates = [154, 162, 168, 167, 179, 191, 208, 218, 242, 244, 242];
        let flags = [153, 153, 154, 152, 152, 152, 150, 149, 149, 131, 131];
        // The two fields of an element of logging.vmodule are not in the kubelet's own list of fields.
        let fields = [144, 145, 151, 152, 155, 160, 160, 160, 162, 163, 164].map(|count| count + 2);
        let tables = Tables::get();
        for (index, minor) in RELEASES.enumerate() {
            let of_release = release(minor);
            assert_eq!(tables.gates_of(of_release).count(), gates[index], "gates of {of_release}");
            assert_eq!(tables.flags_of(of_release).count(), flags[index], "flags of {of_release}");
            let known = tables.fields.iter().filter(|field| field.since <= minor).count();
            assert_eq!(known, fields[index], "fields of {of_release}");
        }
    }

    #[test]
    fn a_gate_changes_with_the_release() {
        let gate = Tables::get().gate("APIListChunking").unwrap();
        let state = |stage, locked| Some(GateState { stage, default: true, locked });
        assert_eq!(gate.state(release(28)), state(Stage::Beta, false));
        assert_eq!(gate.state(release(32)), state(Stage::Ga, true));
        assert_eq!((gate.state(release(33)), gate.removed().map(|change| change.minor)), (None, Some(33)));
        let locked = |minor| gate.locked_since(release(minor)).map(|change| (change.minor, change.known));
        assert_eq!((locked(31), locked(28)), (Some((29, Known::Certainly)), None));
    }

    #[test]
    fn every_field_that_a_flag_sets_is_in_the_table_of_fields() {
        let tables = Tables::get();
        for (name, flag) in &tables.flags {
            assert!(flag.field.is_none_or(|field| tables.field(field).is_some()), "{name}");
        }
        assert_eq!(tables.flag("max-pods").unwrap().kind, FlagKind::Int(32));
        assert_eq!(tables.flag("feature-gates").unwrap().field, Some("featureGates"));
    }
}
