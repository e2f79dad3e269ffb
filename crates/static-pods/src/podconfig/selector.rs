//! Parses and applies label selectors in kubectl's syntax.

use std::str::FromStr;

/// The conditions of a label selector. Labels must satisfy all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

/// A condition on the label with this key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    operator: Operator,
}

/// What a condition requires of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// The label has one of these values.
    In(Vec<String>),
    /// The label has none of these values or does not exist.
    NotIn(Vec<String>),
}

impl Selector {
    /// Whether labels match the selector; `value` returns the value of a key.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|Condition { key, operator }| {
            let value = value(key);
            let is_in =
                |values: &[String]| value.is_some_and(|value| values.iter().any(|listed| listed == value));
            match operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => is_in(values),
                Operator::NotIn(values) => !is_in(values),
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

/// Splits a selector at the commas outside of brackets.
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

/// Parses one condition.
fn condition(text: &str) -> Result<Condition, String> {
    let error = || {
        format!(
            "`{text}` is not a condition on a label; write key=value, key!=value, key in (a,b), key or !key"
        )
    };
    let checked = |key: &str, operator| {
        let key = key.trim();
        let has_only = |text: &str, others: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
        };
        let values_are_valid = match &operator {
            Operator::Exists | Operator::DoesNotExist => true,
            Operator::In(values) | Operator::NotIn(values) => {
                values.iter().all(|value| has_only(value, b"-_."))
            }
        };
        if key.is_empty() || !has_only(key, b"-_./") || !values_are_valid {
            return Err(error());
        }
        Ok(Condition { key: key.to_owned(), operator })
    };
    let single = |value: &str| vec![value.trim().to_owned()];
    if let Some(list) = text.strip_suffix(')') {
        let (left, values) = list.split_once('(').ok_or_else(error)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, word) = left.trim().rsplit_once(char::is_whitespace).ok_or_else(error)?;
        return match word {
            "in" => checked(key, Operator::In(values)),
            "notin" => checked(key, Operator::NotIn(values)),
            _ => Err(error()),
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return checked(key, Operator::NotIn(single(value)));
    }
    if let Some((key, value)) = text.split_once('=') {
        return checked(key, Operator::In(single(value.strip_prefix('=').unwrap_or(value))));
    }
    match text.strip_prefix('!') {
        Some(key) => checked(key, Operator::DoesNotExist),
        None => checked(text, Operator::Exists),
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
    fn each_form_means_the_same_as_for_kubectl() {
        let labels = [("tier", "control-plane"), ("component", "etcd")];
        for matching in [
            "tier",
            "!app",
            "tier=control-plane",
            "tier==control-plane, component in (etcd, x)",
            "component!=x",
            "app!=x",
            "app notin (a,b),component notin (x)",
        ] {
            assert!(matches(matching, &labels), "{matching}");
        }
        for other in
            ["app", "!tier", "tier=x", "component in (x,y)", "component!=etcd", "component notin (etcd)"]
        {
            assert!(!matches(other, &labels), "{other}");
        }
    }

    #[test]
    fn an_invalid_selector_is_rejected() {
        for bad in
            ["", "a=b,", "a near (b)", "(a)", "in (a)", "a b", "!", "a=b=c", "a!=b=c", "a in (b=c)", "a=b c"]
        {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }
}
