//! Loopback ports for a run: drawn from 21000 to 31999, claimed by binding, kept over restarts.
//!
//! The range lies outside the ephemeral ports (32768-60999), so that no outgoing connection can take a port while
//! its service is down. A claim is a socket that is bound and never listens: two runs cannot claim the same port,
//! and the service itself, which binds with SO_REUSEADDR, can.

use std::net::{Ipv4Addr, SocketAddr};

use rand::RngExt;
use socket2::{Domain, Socket, Type};

use crate::error::HarnessError;
use fencepost_workloads::seed::Stream;

const RANGE: std::ops::Range<u16> = 21_000..32_000;
const TRIES: u32 = 500;

/// The ports of a run; dropping it gives them back.
#[derive(Debug)]
pub struct Ports {
    stream: Stream,
    claims: Vec<Socket>,
}

impl Ports {
    /// No ports yet; `stream` draws them. It need not repeat: which port a service has decides nothing.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            claims: Vec::new(),
        }
    }

    /// Claims a free loopback port.
    ///
    /// # Errors
    /// When hundreds of draws in a row were taken.
    pub fn claim(&mut self) -> Result<SocketAddr, HarnessError> {
        for _ in 0..TRIES {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.stream.random_range(RANGE)));
            if let Ok(socket) = Self::bind(address) {
                self.claims.push(socket);
                return Ok(address);
            }
        }
        Err(HarnessError::Internal(format!(
            "no free loopback port between {} and {} in {TRIES} draws",
            RANGE.start,
            RANGE.end - 1
        )))
    }

    /// How many ports there are to draw from, and how many of them are free now.
    #[must_use]
    pub fn free() -> (usize, usize) {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let free = RANGE.filter(|&port| Self::bind(address(port)).is_ok());
        (RANGE.len(), free.count())
    }

    fn bind(address: SocketAddr) -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Bound without SO_REUSEADDR, so that a port that anybody has bound is refused; shared afterwards.
        socket.bind(&address.into())?;
        socket.set_reuse_address(true)?;
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_workloads::seed::Seed;

    #[test]
    fn a_claimed_port_can_be_listened_on_and_again_after_a_restart_but_not_claimed_twice() {
        let mut ports = Ports::new(Seed(1).stream("ports"));
        let address = ports.claim().expect("a free port");
        assert!(Ports::bind(address).is_err(), "a second claim is refused");
        for _ in 0..2 {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            listener.set_reuse_address(true).expect("reuse");
            listener
                .bind(&address.into())
                .expect("the service binds the claimed port");
            listener.listen(1).expect("and listens");
            assert!(Ports::bind(address).is_err(), "a port in use is refused");
        }
    }

    #[test]
    fn a_claimed_port_without_its_service_refuses_connections() {
        let mut ports = Ports::new(Seed(2).stream("ports"));
        let address = ports.claim().expect("a free port");
        let refused = std::net::TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}
