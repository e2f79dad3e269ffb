//! Decides the verdict. [`verdict`] is the only function that does. A command that gives a verdict fills [`VerdictFacts`] as
//! far as it knows them, so that the same facts give the same verdict everywhere, and fewer facts give the same verdict or
//! *unknown*. It reads no sentence of a finding, and writes none.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::diagnosis::report::{Confidence, HealthFinding, Severity, Verdict};
use crate::diagnosis::rules;

/// What a command knows about a node, as far as it decides the verdict. The default knows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictFacts {
    /// Whether nothing can be judged: there is no way to the runtime, or the command has not looked for too long.
    pub is_blind: bool,
    /// What is known about the kubelet's relists.
    pub relists: Relists,
    /// The age of PLEG: the time since the start of the last relist whose lists were answered.
    pub age: Option<Duration>,
    /// The age at which PLEG is unhealthy.
    pub threshold: Duration,
    /// The weight of the findings together.
    pub found: Weight,
    /// Whether a part of what the command looks at is not known, so that no finding does not mean *healthy*.
    pub is_incomplete: bool,
    /// The verdict that another run of plegctl gave on the same node: of the recorder, or of an incident's diagnosis.
    pub reported: Option<Verdict>,
}

/// What is known about the kubelet's relists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Relists {
    /// Nothing.
    #[default]
    Unknown,
    /// None succeeds: a list fails, or the runtime cannot be reached.
    Fail,
    /// They succeed.
    #[serde(rename_all = "camelCase")]
    Succeed {
        /// The highest age that PLEG reaches between two of them.
        peak_age: Duration,
        /// Whether the age may become higher, because the outcome of some calls is not known.
        may_be_higher: bool,
    },
}

/// How much a finding weighs. The heaviest one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// It changes nothing.
    #[default]
    Nothing,
    /// It needs a person, although PLEG stays healthy.
    NeedsPerson,
    /// PLEG is unhealthy because of it, or no kubelet does its work.
    MakesUnhealthy,
}

impl Weight {
    /// Returns the weight of a finding. A finding that is only possible changes nothing.
    pub fn of(finding: &HealthFinding) -> Self {
        if finding.confidence == Confidence::Possible {
            return Self::Nothing;
        }
        match finding.severity {
            Severity::Info => Self::Nothing,
            Severity::Critical if rules::row(finding.id).makes_unhealthy => Self::MakesUnhealthy,
            Severity::Warning | Severity::Error | Severity::Critical => Self::NeedsPerson,
        }
    }
}

impl VerdictFacts {
    /// Whether something makes the node unhealthy, whatever else is not known.
    fn is_unhealthy(&self) -> bool {
        let trips = match self.relists {
            Relists::Unknown => false,
            Relists::Fail => true,
            Relists::Succeed { peak_age, .. } => peak_age > self.threshold,
        };
        trips
            || self.age.is_some_and(|age| age > self.threshold)
            || self.found == Weight::MakesUnhealthy
            || self.reported == Some(Verdict::Unhealthy)
    }

    /// Whether nothing that is not known could make the node unhealthy.
    fn rules_out_unhealthy(&self) -> bool {
        match self.relists {
            Relists::Succeed { may_be_higher: false, .. } => true,
            Relists::Unknown | Relists::Fail | Relists::Succeed { may_be_higher: true, .. } => {
                matches!(self.reported, Some(Verdict::Healthy | Verdict::Degraded))
            }
        }
    }
}

impl Verdict {
    /// Returns how serious the verdict is; a higher number is worse. A verdict that is not known is the least serious.
    pub const fn seriousness(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Healthy => 1,
            Self::Degraded => 2,
            Self::Unhealthy => 3,
        }
    }
}

/// Decides the verdict.
pub fn verdict(facts: &VerdictFacts) -> Verdict {
    if facts.is_blind {
        Verdict::Unknown
    } else if facts.is_unhealthy() {
        Verdict::Unhealthy
    } else if !facts.rules_out_unhealthy() {
        Verdict::Unknown
    } else if facts.found == Weight::NeedsPerson || facts.reported == Some(Verdict::Degraded) {
        Verdict::Degraded
    } else if facts.is_incomplete {
        Verdict::Unknown
    } else {
        Verdict::Healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: Duration = Duration::from_secs(180);

    /// Returns every combination of facts, at both sides of each limit.
    fn all() -> Vec<VerdictFacts> {
        let ages = [1, 180, 181].map(Duration::from_secs);
        let succeed = ages.into_iter().flat_map(|peak_age| {
            [false, true].map(|may_be_higher| Relists::Succeed { peak_age, may_be_higher })
        });
        let relists: Vec<Relists> = succeed.chain([Relists::Unknown, Relists::Fail]).collect();
        let ages: Vec<Option<Duration>> = ages.into_iter().map(Some).chain([None]).collect();
        let words = [Verdict::Healthy, Verdict::Degraded, Verdict::Unhealthy, Verdict::Unknown];
        let reports: Vec<Option<Verdict>> = words.into_iter().map(Some).chain([None]).collect();
        let mut all = Vec::new();
        for is_blind in [false, true] {
            for relists in &relists {
                for age in &ages {
                    for found in [Weight::Nothing, Weight::NeedsPerson, Weight::MakesUnhealthy] {
                        for is_incomplete in [false, true] {
                            all.extend(reports.iter().map(|reported| VerdictFacts {
                                is_blind,
                                relists: *relists,
                                age: *age,
                                threshold: THRESHOLD,
                                found,
                                is_incomplete,
                                reported: *reported,
                            }));
                        }
                    }
                }
            }
        }
        all
    }

    /// Returns the facts that are left when one fact is not known, for each fact that can be unknown and says so.
    fn with_one_fact_less(facts: &VerdictFacts) -> Vec<VerdictFacts> {
        let mut fewer = vec![
            VerdictFacts { is_blind: true, ..*facts },
            VerdictFacts { is_incomplete: true, ..*facts },
            VerdictFacts { relists: Relists::Unknown, reported: None, ..*facts },
        ];
        if let Relists::Succeed { peak_age, .. } = facts.relists {
            let peak_age = peak_age.min(Duration::from_secs(1));
            let relists = Relists::Succeed { peak_age, may_be_higher: true };
            fewer.push(VerdictFacts { relists, reported: None, ..*facts });
        }
        fewer
    }

    #[test]
    fn fewer_facts_give_the_same_verdict_or_unknown() {
        for facts in all() {
            let all = verdict(&facts);
            for fewer in with_one_fact_less(&facts) {
                let less = verdict(&fewer);
                assert!(less == all || less == Verdict::Unknown, "{all:?}: {facts:?}\n{less:?}: {fewer:?}");
            }
        }
    }

    /// Returns the lines of the program, without its tests, with their files.
    fn source_lines(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.display().to_string();
            if path.is_dir() && !name.ends_with("/tests") {
                source_lines(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                found.extend(program.lines().map(|line| (name.clone(), line.to_owned())));
            }
        }
    }

    /// A line reads a verdict if the word is in a comparison, in a `let` or in an arm of a `match` before its arrow. The list of
    /// all words is no verdict either.
    fn reads_verdict(line: &str, at: usize) -> bool {
        let (before, after) = line.split_at(at);
        let is_compared = ["== ", "!= ", "== Some(", "!= Some("].iter().any(|sign| before.ends_with(sign));
        is_compared || before.contains("if let ") || after.contains("=>") || before.contains("[Verdict; 4]")
    }

    #[test]
    fn no_other_file_decides_a_verdict() {
        let mut lines = Vec::new();
        source_lines(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"), &mut lines);
        let mut read = 0;
        for (file, line) in lines.iter().filter(|(file, _)| !file.ends_with("judge/verdict.rs")) {
            for (at, _) in line.match_indices("Verdict::") {
                let is_other_type = line[..at].ends_with(char::is_alphanumeric);
                let words = ["Healthy", "Degraded", "Unhealthy", "Unknown"];
                let is_word = words.iter().any(|word| line[at + "Verdict::".len()..].starts_with(word));
                if is_word && !is_other_type {
                    assert!(reads_verdict(line, at), "{file}: {line}");
                    read += 1;
                }
            }
        }
        assert!(read > 30, "only {read} lines read a verdict: does this test still find them?");
    }

    /// Whether a line searches in a sentence of a finding, a step or a report.
    fn reads_sentence(line: &str) -> bool {
        const SEARCHES: [&str; 6] = ["contains(", "starts_with(", "ends_with(", "find(", "split", "strip_"];
        let sentences = ["title.", "summary.", "purpose."].into_iter();
        let mut places = sentences.flat_map(|field| line.match_indices(field));
        places.any(|(at, field)| SEARCHES.iter().any(|search| line[at + field.len()..].starts_with(search)))
    }

    #[test]
    fn no_code_decides_by_the_words_of_a_finding() {
        assert!(reads_sentence("if holder.title.contains(&label) {") && !reads_sentence("title.clone()"));
        let mut lines = Vec::new();
        source_lines(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"), &mut lines);
        let reading: Vec<_> = lines.iter().filter(|(_, line)| reads_sentence(line)).collect();
        assert!(reading.is_empty(), "{reading:#?}");
    }

    #[test]
    fn verdict_is_only_healthy_if_everything_is_known_and_nothing_is_found() {
        for facts in all().into_iter().filter(|facts| verdict(facts) == Verdict::Healthy) {
            assert!(!facts.is_blind && !facts.is_incomplete && facts.found == Weight::Nothing, "{facts:?}");
        }
        assert_eq!(verdict(&VerdictFacts::default()), Verdict::Unknown);
    }

    #[test]
    fn pleg_is_unhealthy_from_the_moment_at_which_the_kubelet_says_so() {
        let of_age = |age| verdict(&VerdictFacts { age: Some(age), threshold: THRESHOLD, ..working() });
        assert_eq!(of_age(THRESHOLD), Verdict::Healthy);
        assert_eq!(of_age(THRESHOLD + Duration::from_nanos(1)), Verdict::Unhealthy);
    }

    fn working() -> VerdictFacts {
        let relists = Relists::Succeed { peak_age: Duration::from_secs(1), may_be_higher: false };
        VerdictFacts { relists, threshold: THRESHOLD, ..VerdictFacts::default() }
    }
}
