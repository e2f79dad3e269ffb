//! Parses and applies label selectors in kubectl's syntax.

use std::str::FromStr;

/// The conditions of a label selector. Labels must satisfy all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<SelectorTerm>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectorTerm {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Present,
    Absent,
    /// One of these values.
    In(Vec<String>),
    /// None of these values, or no label with this key.
    NotIn(Vec<String>),
}

impl Selector {
    /// Whether labels match the selector; `value` returns the value of a key.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|SelectorTerm { key, test }| {
            let value = value(key);
            let is_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
            match test {
                Test::Present => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => is_of(values),
                Test::NotIn(values) => !is_of(values),
            }
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parts(text).map(|part| condition(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

/// Splits at the commas outside of brackets.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn condition(text: &str) -> Result<SelectorTerm, String> {
    let no = || {
        format!(
            "`{text}` is not a condition on a label; write key=value, key!=value, key in (a,b), key or !key"
        )
    };
    let made = |key: &str, test| {
        let key = key.trim();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if key.is_empty() || !key.bytes().all(good) {
            return Err(no());
        }
        Ok(SelectorTerm { key: key.to_owned(), test })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(list) = text.strip_suffix(')') {
        let (left, values) = list.split_once('(').ok_or_else(no)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, word) = left.trim().rsplit_once(char::is_whitespace).ok_or_else(no)?;
        return match word {
            "in" => made(key, Test::In(values)),
            "notin" => made(key, Test::NotIn(values)),
            _ => Err(no()),
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = text.split_once('=') {
        return made(key, Test::In(one(value.strip_prefix('=').unwrap_or(value))));
    }
    match text.strip_prefix('!') {
        Some(key) => made(key, Test::Absent),
        None => made(text, Test::Present),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let selector: Selector = selector.parse().unwrap();
        selector.matches(|key| labels.iter().find(|label| label.0 == key).map(|label| label.1))
    }

    #[test]
    fn each_form_is_read_as_kubectl_reads_it() {
        let labels = [("tier", "control-plane"), ("component", "etcd")];
        for yes in [
            "tier",
            "!app",
            "tier=control-plane",
            "tier==control-plane, component in (etcd, x)",
            "component!=x",
            "app!=x",
            "app notin (a,b),component notin (x)",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in
            ["app", "!tier", "tier=x", "component in (x,y)", "component!=etcd", "component notin (etcd)"]
        {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn an_invalid_selector_is_rejected() {
        for bad in ["", "a=b,", "a near (b)", "(a)", "in (a)", "a b", "!"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }
}
