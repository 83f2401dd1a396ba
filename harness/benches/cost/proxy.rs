//! What the embedded fault proxy adds to a round trip.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use fencepost::proxies::Proxies;

use crate::support::{Row, free_address, median, row, runtime, serve};

/// A round trip of 64 bytes through the embedded proxy, against the same connection without it.
pub fn proxy() -> Vec<Row> {
    let echo = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = echo.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in echo.incoming().flatten() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).expect("a socket");
                let (mut from, mut to) = (stream.try_clone().expect("a socket"), stream);
                let _ = std::io::copy(&mut from, &mut to);
            });
        }
    });
    let (_proxy, api) = serve(&["toxiproxy"]);
    let runtime = runtime();
    let proxies = runtime
        .block_on(Proxies::connect(api))
        .expect("the proxy answers");
    let listen = runtime
        .block_on(proxies.create("echo", free_address(), upstream))
        .expect("created");
    let proxied: SocketAddr = listen.to_string().parse().expect("an address");
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        through.push(round_trip(proxied));
        direct.push(round_trip(upstream));
    }
    let ratio = median(
        through
            .iter()
            .zip(&direct)
            .map(|(through, direct)| through / direct)
            .collect(),
    );
    let (through, direct) = (median(through), median(direct));
    vec![
        row(
            "the embedded proxy adds to a round trip of 64 bytes",
            format!("{:.0} us", through - direct),
            "",
        ),
        row(
            "round trip through it, against the direct one",
            format!("{ratio:.1} times"),
            "",
        ),
    ]
}

/// The median of 2,000 round trips, in microseconds.
fn round_trip(address: SocketAddr) -> f64 {
    use std::io::Read;
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut bytes = [7_u8; 64];
    let trips = (0..2_000).map(|_| {
        let begun = Instant::now();
        stream.write_all(&bytes).expect("sent");
        stream.read_exact(&mut bytes).expect("echoed");
        begun.elapsed().as_secs_f64() * 1e6
    });
    median(trips.collect())
}
