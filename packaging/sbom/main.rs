//! Reads the output of `cargo metadata --locked --format-version 1 --filter-platform TARGET` from stdin and prints an SBOM in
//! `CycloneDX` 1.5: all crates that are linked into the binary, and no crate that only tests or builds need. The argument is
//! the address of plegctl's repository.

mod bom;

use std::io::{self, Read, Write};

use serde_json::Value;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let metadata: Value = serde_json::from_str(&text)?;
    let bom = bom::bom(&metadata, address.as_deref())
        .ok_or_else(|| io::Error::other("this is not what cargo metadata prints"))?;
    writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&bom)?)
}
