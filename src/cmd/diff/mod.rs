//! `plegctl diff`: compares two relists, and prints the events that the kubelet's PLEG would have emitted between them, and
//! the changes that PLEG would have missed. Each relist comes from a saved report or from an endpoint.
//!
//! ```text
//! $ plegctl relist --save before.json >/dev/null; sleep 60; plegctl diff before.json
//! default/web-0  app  running → exited  ContainerDied
//! ```

mod text;

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;

use super::args::GlobalArgs;
use super::event_loop::block_on;
use super::node::Node;
use super::relist::lists_only;
use super::session::Session;
use super::term::output::Output;
use super::{CAPTURE, Error, Exit, SIMULATED, named_file};
use crate::pleg::diff::same_node;
use crate::pleg::{RelistReport, diff, document};
use crate::report::load::LARGEST_REPORT;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A saved `relist --save` report, `-` for stdin, `capture:PATH@TIME`, `sim:SCENARIO[@TIME]`, `unix:///path`, or
    /// `live` for this node
    before: Side,

    /// The later relist, in the same forms
    #[arg(default_value = "live")]
    after: Side,

    /// Compare reports of two different nodes
    #[arg(long)]
    force: bool,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl]))]
    output: Output,
}

/// One side of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Live,
    Endpoint(String),
    /// A file; `-` is stdin.
    File(PathBuf),
}

impl From<&str> for Side {
    fn from(text: &str) -> Self {
        match text {
            "live" => Self::Live,
            endpoint if [CAPTURE, SIMULATED, "unix://"].iter().any(|start| endpoint.starts_with(start)) => {
                Self::Endpoint(endpoint.to_owned())
            }
            path => Self::File(path.into()),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &DiffArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = &Node::named_by(global);
    let stdin = Side::File("-".into());
    if arguments.before == stdin && arguments.after == stdin {
        return Err(Error::StdinTwice);
    }
    let before = read(&arguments.before, node)?;
    let after = read(&arguments.after, node)?;
    if !arguments.force {
        same_node(&before, &after)?;
    }
    let difference = diff(&before, &after);
    arguments.output.print(&document(&difference), global.style(), |out| text::table(&difference, out))?;
    Ok(if difference.is_empty() { Exit::Good } else { Exit::Bad })
}

fn read(side: &Side, node: &Rc<Node>) -> Result<RelistReport, Error> {
    let path = match side {
        Side::Live => return relist_report(node),
        Side::Endpoint(endpoint) => return relist_report(&node.at_endpoint(endpoint)),
        Side::File(path) => path,
    };
    let if_missing = Some("make one with `plegctl relist --save FILE`");
    let (name, text) = named_file::read(path, LARGEST_REPORT, if_missing)?;
    RelistReport::read(&text).map_err(|source| Error::NoReport { name, source })
}

/// Makes the two list calls, to the runtime of the node, and converts the answers to a report.
fn relist_report(node: &Rc<Node>) -> Result<RelistReport, Error> {
    let session = Session::of_node(node)?;
    block_on(lists_only(&session))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_file_stdin_or_the_node() {
        assert_eq!(Side::from("live"), Side::Live);
        assert_eq!(Side::from("-"), Side::File("-".into()));
        assert_eq!(Side::from("./live"), Side::File("./live".into()));
        for endpoint in ["sim:quiet@2m", "capture:rec@+1s", "unix:///run/containerd/containerd.sock"] {
            assert_eq!(Side::from(endpoint), Side::Endpoint(endpoint.to_owned()));
        }
    }
}
