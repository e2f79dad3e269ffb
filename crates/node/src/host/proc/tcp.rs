//! Reads the tables of TCP sockets in `/proc`, and finds out whether a process has an established connection to an address.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::waits_uninterruptibly;
use crate::host::kernel_text;

/// The maximum number of descriptors of a process that are read.
const MAX_DESCRIPTORS: usize = 65_536;

/// A TCP socket of a network namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// The target of the descriptors of the socket: `socket:[4711]`.
    pub link: String,
    /// Its own address and port.
    pub local: (IpAddr, u16),
    /// The address and the port of the other end.
    pub remote: (IpAddr, u16),
    /// The kernel's number of its state.
    state: u8,
}

impl TcpSocket {
    /// Reads the sockets of the network namespace whose tables are in this directory.
    pub fn all(network: &Path) -> io::Result<Vec<Self>> {
        let ipv4 = kernel_text(&network.join("tcp"))?;
        // A kernel without IPv6 has no such table.
        let ipv6 = kernel_text(&network.join("tcp6")).unwrap_or_default();
        Ok(ipv4.lines().chain(ipv6.lines()).filter_map(Self::read).collect())
    }

    /// Reads a line of a table.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, _, _, inode, ..] = words.as_slice() else { return None };
        let place = |text: &str| {
            let (address, port) = text.split_once(':')?;
            Some((hexadecimal_address(address)?, u16::from_str_radix(port, 16).ok()?))
        };
        let state = u8::from_str_radix(state, 16).ok()?;
        Some(Self { link: format!("socket:[{inode}]"), local: place(local)?, remote: place(remote)?, state })
    }

    /// Whether the socket listens (`TCP_LISTEN`).
    pub const fn listens(&self) -> bool {
        self.state == 10
    }

    /// Whether the socket is connected (`TCP_ESTABLISHED`).
    const fn is_established(&self) -> bool {
        self.state == 1
    }
}

/// Whether the process `pid` has an established connection to this port and, if it is known, to this address. Fails if its
/// tables or its descriptors cannot be read.
pub fn is_connected(proc: &Path, pid: u32, address: Option<IpAddr>, port: u16) -> io::Result<bool> {
    let dir = proc.join(pid.to_string());
    // Reading the descriptors of a process in uninterruptible sleep could block.
    if waits_uninterruptibly(&dir) {
        return Err(io::Error::other("the process is in uninterruptible sleep"));
    }
    let is_there = |(to, at)| at == port && address.is_none_or(|address| to == address);
    let sockets = TcpSocket::all(&dir.join("net"))?.into_iter();
    let there = sockets.filter(|socket| socket.is_established() && is_there(socket.remote));
    let there: BTreeSet<String> = there.map(|socket| socket.link).collect();
    // The table has the connections of every process in the network namespace.
    let descriptors = fs::read_dir(dir.join("fd"))?.flatten().take(MAX_DESCRIPTORS);
    let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.any(|target| target.to_str().is_some_and(|target| there.contains(target))))
}

/// The kernel prints an address as words of 32 bits in the byte order of the machine; all machines of Kubernetes with
/// this product are little-endian.
fn hexadecimal_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.swap_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let whole = words.into_iter().fold(0_u128, |whole, word| (whole << 32) | u128::from(word));
            let address = Ipv6Addr::from(whole);
            Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use std::path::Path;

    use super::*;

    #[test]
    fn an_established_connection_of_this_process_is_found_and_others_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        // The process may be in uninterruptible sleep for a moment, on a busy machine; then nothing is read.
        let find = |address, port| loop {
            if let Ok(found) = is_connected(Path::new("/proc"), std::process::id(), address, port) {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(!find(Some(place.ip()), place.port()), "it only listens");
        let client = TcpStream::connect(place).unwrap();
        assert!(find(Some(place.ip()), place.port()) && find(None, place.port()));
        assert!(!find(Some("127.0.0.2".parse().unwrap()), place.port()));
        drop((client, listener));
    }

    #[test]
    fn a_listening_socket_has_an_address_a_port_and_an_inode() {
        let of_ipv4 = "   0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0";
        let socket = TcpSocket::read(of_ipv4).unwrap();
        let place = ("127.0.0.1".parse().unwrap(), 10248);
        assert_eq!((socket.link.as_str(), socket.local, socket.listens()), ("socket:[777]", place, true));
        let connected = TcpSocket::read(&of_ipv4.replace(" 0A ", " 01 ")).unwrap();
        assert!(!connected.listens(), "a connection does not listen");
        let address = |text: &str| TcpSocket::read(&of_ipv4.replace("0100007F", text)).unwrap().local.0;
        assert_eq!(address("00000000000000000000000001000000"), "::1".parse::<IpAddr>().unwrap());
        let mapped = "0000000000000000FFFF00000100007F";
        assert_eq!(address(mapped), "127.0.0.1".parse::<IpAddr>().unwrap());
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(TcpSocket::read(heading), None);
    }

    #[test]
    fn a_line_of_the_table_is_parsed() {
        let line = "   1: 0100007F:A2F4 0A0B0C0D:192B 01 00000000:00000000 02:00000ABC 00000000     0        0 4711 2 0 20 4 30 10 -1";
        let socket = TcpSocket::read(line).unwrap();
        assert_eq!((socket.link.as_str(), socket.is_established()), ("socket:[4711]", true));
        assert_eq!(socket.remote, ("13.12.11.10".parse().unwrap(), 6443));
        assert_eq!(socket.local, ("127.0.0.1".parse().unwrap(), 0xA2F4));
        assert!(!TcpSocket::read(&line.replace(" 01 ", " 06 ")).unwrap().is_established(), "TIME_WAIT");
        assert_eq!(hexadecimal_address("B80D0120"), Some("32.1.13.184".parse().unwrap()));
    }
}
