//! Runs a real node for measurements by hand: a private containerd with the requested number of pods, until standard
//! input ends.
//!
//! ```text
//! $ cargo bench --bench real_node -- --containerd 2 --pods 50 --containers 1
//! unix:///tmp/plegctl-rt-4711-0/containerd.sock
//! ```
//!
//! Without `--containerd` the bench only prints how to use it, because nobody waits for its node in `make bench`.

pub mod support;
#[path = "support/target.rs"]
pub mod target;

use std::io;

use clap::{Parser, ValueEnum};
use target::Target;
use target::harness::packages::{Containerd, Packages};

#[derive(Debug, Parser)]
struct Arguments {
    /// The containerd series
    #[arg(long)]
    containerd: Option<Series>,
    /// The number of pods
    #[arg(long, default_value = "50")]
    pods: usize,
    /// The number of containers in each pod
    #[arg(long, default_value = "1")]
    containers: usize,
    /// Cargo passes this option to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Series {
    #[value(name = "1.6")]
    V1_6,
    #[value(name = "1.7")]
    V1_7,
    #[value(name = "2")]
    V2,
}

impl From<Series> for Containerd {
    fn from(series: Series) -> Self {
        match series {
            Series::V1_6 => Self::V1_6,
            Series::V1_7 => Self::V1_7,
            Series::V2 => Self::V2,
        }
    }
}

fn main() {
    let Arguments { containerd, pods, containers, .. } = Arguments::parse();
    let Some(series) = containerd else {
        println!(
            "\na real node to measure by hand: cargo bench --bench real_node -- --containerd 2 --pods 50 --containers 1"
        );
        return;
    };
    match Packages::find() {
        Ok(packages) => {
            let node = Target::node(series.into(), packages, pods, containers);
            println!("{}", node.endpoint());
            eprintln!("{}, until Ctrl-D", node.name);
            io::copy(&mut io::stdin(), &mut io::sink()).expect("standard input can be read");
        }
        Err(reason) => println!("skipped: {reason}"),
    }
}
