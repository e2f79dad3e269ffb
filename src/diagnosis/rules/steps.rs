//! What to do, from the table `steps.txt`: what a rule always suggests, and what depends on a cause or a limit.

use super::prelude::*;

/// The rows of the table.
const TABLE: &str = include_str!("steps.txt");

/// Returns the steps for an id. `fill` fills the places of a command.
pub(super) fn steps_of(id: &str, fill: impl Fn(Command) -> Command) -> Vec<Step> {
    let is_for_id = |block: &&str| {
        let ids = block.strip_prefix('[').and_then(|block| block.split(']').next());
        ids.is_some_and(|ids| ids.split(' ').any(|word| word == id))
    };
    let lines = TABLE.split("\n\n").filter(is_for_id).flat_map(str::lines);
    lines.filter_map(|line| step(line, &fill)).collect()
}

impl HealthFinding {
    /// Adds the steps that the rule always suggests.
    pub(super) fn add_usual_steps(&mut self) {
        self.steps.extend(steps_of(self.id.as_str(), |command| command));
    }
}

fn step(line: &'static str, fill: impl Fn(Command) -> Command) -> Option<Step> {
    let (key, rest) = line.split_once(": ")?;
    let (text, command) = rest.split_once(" => ").unwrap_or((rest, ""));
    let step = match key {
        "look" => Step::look(text),
        "change" => Step::change(text),
        _ => return None,
    };
    Some(match command {
        "" => step,
        _ if command.contains("{}") => step.with(fill(Command::new(command))),
        _ => step.with(Command::new(command)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::forecast::LimitKind;

    #[test]
    fn every_limit_has_steps_and_every_line_of_the_table_is_a_step_or_begins_a_block() {
        for limit in LimitKind::ALL {
            assert!(!steps_of(limit.as_str(), |command| command.arg(7)).is_empty(), "{limit}");
        }
        let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
        for row in rows {
            assert!(step(row, |command| command.arg(7)).is_some(), "{row}");
        }
    }
}
