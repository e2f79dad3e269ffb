//! Tests that take long because of what they prove: mutated input by the thousand, the memory that huge answers cost,
//! two hundred kills, a browser. `make slow` runs them, and CI does.

#[path = "../support/mod.rs"]
pub mod support;

mod browser;
#[path = "../../fuzz/mod.rs"]
mod fuzz;
mod kills;
mod many_pods;
mod memory;
mod page;
