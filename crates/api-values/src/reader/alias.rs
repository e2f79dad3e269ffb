//! Rejects documents whose aliases expand to too many nodes, with go-yaml's own rule, and aliases inside their own anchor.

use super::SyntaxError;
use super::raw::{RawDocument, RawKind, yaml_error};
use crate::tree::Position;

/// Up to this number of decoded nodes, 99 % of the nodes may come from aliases (`alias_ratio_range_low` in go-yaml).
const LENIENT_COUNT: u32 = 400_000;
/// From this number on, only 10 % of the nodes may come from aliases (`alias_ratio_range_high`).
const STRICT_COUNT: u32 = 4_000_000;

/// Walks the document in go-yaml's decoding order, counts the nodes, and stops where go-yaml reports an error.
pub fn check(document: &RawDocument) -> Result<(), SyntaxError> {
    let mut counts = AliasCounts::default();
    let mut active = vec![false; document.nodes.len()];
    let mut work = vec![WalkStep::Enter(0)];
    while let Some(step) = work.pop() {
        let number = match step {
            WalkStep::Enter(number) => number,
            WalkStep::Leave(number) => {
                counts.depth = counts.depth.saturating_sub(1);
                set(&mut active, number, false);
                continue;
            }
        };
        let Some(node) = document.nodes.get(number) else {
            continue;
        };
        counts.add();
        if counts.excessive() {
            return Err(yaml_error(
                "document contains excessive aliasing",
                "the aliases of this document expand to far more values than the document contains",
                node.position,
                Some("write the values out instead of nesting aliases"),
            ));
        }
        match &node.kind {
            RawKind::Alias(target) => {
                if active.get(number) == Some(&true) {
                    return Err(contains_itself(node.position));
                }
                set(&mut active, number, true);
                counts.depth = counts.depth.saturating_add(1);
                work.push(WalkStep::Leave(number));
                work.push(WalkStep::Enter(*target));
            }
            RawKind::List(items) => work.extend(items.iter().rev().map(|item| WalkStep::Enter(*item))),
            RawKind::Map(pairs) => {
                work.extend(
                    pairs
                        .iter()
                        .rev()
                        .flat_map(|(key, value)| [WalkStep::Enter(*value), WalkStep::Enter(*key)]),
                );
            }
            RawKind::Scalar(_) | RawKind::Merge => {}
        }
    }
    Ok(())
}

enum WalkStep {
    Enter(usize),
    Leave(usize),
}

#[derive(Default)]
struct AliasCounts {
    /// All nodes so far.
    decoded: u32,
    /// The nodes that come from aliases.
    aliased: u32,
    /// The number of aliases that contain the present node.
    depth: u32,
}

impl AliasCounts {
    fn add(&mut self) {
        self.decoded = self.decoded.saturating_add(1);
        if self.depth > 0 {
            self.aliased = self.aliased.saturating_add(1);
        }
    }

    fn excessive(&self) -> bool {
        if self.aliased <= 100 || self.decoded <= 1000 {
            return false;
        }
        f64::from(self.aliased) / f64::from(self.decoded) > allowed_ratio(self.decoded)
    }
}

/// Returns the share of nodes that may come from aliases.
fn allowed_ratio(decoded: u32) -> f64 {
    if decoded <= LENIENT_COUNT {
        0.99
    } else if decoded >= STRICT_COUNT {
        0.10
    } else {
        0.99 - 0.89 * f64::from(decoded - LENIENT_COUNT) / f64::from(STRICT_COUNT - LENIENT_COUNT)
    }
}

fn set(active: &mut [bool], number: usize, value: bool) {
    if let Some(flag) = active.get_mut(number) {
        *flag = value;
    }
}

fn contains_itself(position: Position) -> SyntaxError {
    yaml_error(
        "anchor value contains itself",
        "this alias is inside the value of its own anchor",
        position,
        Some("write the value out"),
    )
}
