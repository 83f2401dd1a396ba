//! What Toxiproxy's answers look like, and how they are read. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;

use serde::Deserialize;

use super::Cause;

fencepost_checker::only_objects!(read ProxyState, ToxicState, Refusal);

/// A proxy as the server shows it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct ProxyState {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub listen: String,
    /// Where it leads.
    pub upstream: String,
    /// Whether it listens.
    pub enabled: bool,
    /// Its toxics, upstream before downstream.
    #[serde(default)]
    pub toxics: Vec<ToxicState>,
}

/// A toxic as the server shows it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct ToxicState {
    /// Its name, `TYPE_STREAM` for those that we install.
    pub name: String,
    /// Toxiproxy's type, e.g. `timeout`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `upstream` or `downstream`.
    pub stream: String,
    /// The chance that it applies to a connection.
    pub toxicity: f64,
    /// Its numbers.
    #[serde(default)]
    pub attributes: BTreeMap<String, serde_json::Value>,
}

/// Bytes that went through a proxy; up is from client to server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bytes {
    /// Bytes handed on to the server.
    pub up: u64,
    /// Bytes handed on to the client.
    pub down: u64,
    /// Bytes that the client sent; under a hole upstream this grows and `up` does not.
    pub up_received: u64,
    /// Bytes that the server sent; under a hole downstream this grows and `down` does not.
    pub down_received: u64,
}

/// A refusal as Toxiproxy words it.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Refusal {
    error: String,
}

/// What a status other than 2xx says.
pub(super) fn refusal(status: u16, body: &str) -> Cause {
    let message = match serde_json::from_str::<Refusal>(body) {
        Ok(refusal) => refusal.error,
        Err(_) => body.trim().to_owned(),
    };
    Cause::Refused { status, message }
}

/// The beginning of what a stranger said, fit for a line.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 120;
    let short: String = text.chars().take(SHOWN).collect();
    let more = if short.len() < text.len() { " ..." } else { "" };
    format!("{short:?}{more}")
}

/// The version in the answer of `GET /version`; servers before 2.5 answered in plain text.
pub(super) fn version(body: &str) -> Result<String, Cause> {
    #[derive(Deserialize)]
    #[serde(remote = "Self")]
    struct Version {
        version: String,
    }
    fencepost_checker::only_objects!(read Version);
    if let Ok(version) = serde_json::from_str::<Version>(body) {
        return Ok(version.version);
    }
    let text = body.trim();
    let plain = text.starts_with(|first: char| first.is_ascii_digit() || first == 'g')
        && !text.contains(['<', '\n']);
    if plain {
        Ok(text.to_owned())
    } else {
        Err(Cause::Unreadable(format!("version {}", quoted(text))))
    }
}

/// The bytes of a proxy in the answer of `GET /metrics`, or `None` if it has no line there.
pub(super) fn bytes(metrics: &str, proxy: &ProxyState) -> Option<Bytes> {
    let labels = [
        format!("proxy=\"{}\"", proxy.name),
        format!("listener=\"{}\"", proxy.listen),
        format!("upstream=\"{}\"", proxy.upstream),
    ];
    let mut found = None;
    for line in metrics.lines() {
        let Some((head, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let Some((name, given)) = head.split_once('{') else {
            continue;
        };
        let given: Vec<&str> = given.trim_end_matches('}').split(',').collect();
        if !labels.iter().all(|label| given.contains(&label.as_str())) {
            continue;
        }
        let upstream = given.contains(&"direction=\"upstream\"");
        // Prometheus writes large counters of a Go server as 1.5e+06.
        let Ok(value) = value.parse::<f64>() else {
            continue;
        };
        let bytes: &mut Bytes = found.get_or_insert_default();
        match (name, upstream) {
            ("toxiproxy_proxy_sent_bytes_total", true) => bytes.up = value as u64,
            ("toxiproxy_proxy_sent_bytes_total", false) => bytes.down = value as u64,
            ("toxiproxy_proxy_received_bytes_total", true) => bytes.up_received = value as u64,
            ("toxiproxy_proxy_received_bytes_total", false) => bytes.down_received = value as u64,
            _ => {}
        }
    }
    found
}

/// See [`super::no_proxy_needed`]. The client crate looks for these names, and in `NO_PROXY` for the plain address;
/// `*` does not cover addresses there. A network that covers it is not recognised here, which costs nothing.
pub(super) fn no_proxy_needed(
    address: IpAddr,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<OsString> {
    let set = |name| variable(name).is_some_and(|value| !value.is_empty());
    if !["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        .into_iter()
        .any(set)
    {
        return None;
    }
    // The first that is set counts, even where it is empty.
    let now = variable("NO_PROXY")
        .or_else(|| variable("no_proxy"))
        .unwrap_or_default();
    let wanted = address.to_string();
    let text = now.to_string_lossy();
    if text.split(',').any(|part| part.trim() == wanted) {
        return None;
    }
    let kept = text.trim_end_matches(',');
    Some(OsString::from(if kept.is_empty() {
        wanted
    } else {
        format!("{kept},{wanted}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_proxy_without_an_exception_for_the_address_is_noticed() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        for (environment, needed) in [
            (&[][..], None),
            (&[("NO_PROXY", "x")], None),
            (&[("HTTP_PROXY", "")], None),
            (&[("HTTP_PROXY", "http://p")], Some("127.0.0.1")),
            (
                &[("all_proxy", "http://p"), ("no_proxy", "*")],
                Some("*,127.0.0.1"),
            ),
            (
                &[
                    ("http_proxy", "http://p"),
                    ("NO_PROXY", "localhost, 127.0.0.1"),
                ],
                None,
            ),
            (
                &[
                    ("http_proxy", "http://p"),
                    ("NO_PROXY", "example.com"),
                    ("no_proxy", "127.0.0.1"),
                ],
                Some("example.com,127.0.0.1"),
            ),
        ] {
            let variable = |name: &str| {
                let found = environment.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(
                no_proxy_needed(loopback, variable),
                needed.map(OsString::from),
                "{environment:?}"
            );
        }
    }

    #[test]
    fn versions_of_new_and_old_servers_are_read_and_other_pages_are_not() {
        assert_eq!(
            version("{\"version\": \"2.12.0\"}\n").expect("new"),
            "2.12.0"
        );
        assert_eq!(version("2.1.4").expect("old"), "2.1.4");
        assert!(matches!(
            version("<html>hello</html>"),
            Err(Cause::Unreadable(_))
        ));
    }

    #[test]
    fn a_proxys_own_counters_are_picked_out_of_all() {
        let state = ProxyState {
            name: "a".to_owned(),
            listen: "127.0.0.1:1".to_owned(),
            upstream: "127.0.0.1:2".to_owned(),
            enabled: true,
            toxics: Vec::new(),
        };
        let line = |name: &str, direction: &str, proxy: &str, value: &str| {
            format!(
                "toxiproxy_proxy_{name}_bytes_total{{direction=\"{direction}\",listener=\"127.0.0.1:1\",proxy=\"{proxy}\",upstream=\"127.0.0.1:2\"}} {value}\n"
            )
        };
        let text = [
            "# HELP\n".to_owned(),
            line("sent", "upstream", "a", "1.5e+06"),
            line("received", "downstream", "a", "7"),
            line("sent", "downstream", "ab", "9"),
        ];
        let expected = Bytes {
            up: 1_500_000,
            down: 0,
            up_received: 0,
            down_received: 7,
        };
        assert_eq!(bytes(&text.concat(), &state), Some(expected));
        assert_eq!(bytes("go_goroutines 5\n", &state), None);
    }
}
