//! What only the reference resource's HTTP can be asked, because it can be spoken badly on purpose: tokens that are
//! none, and paths beside the primary one.

use reqwest::StatusCode;
use serde_json::Value;

use super::asked::{Asked, heard, refused};
use super::rules::{Rule, Tally};

const MISSING: &str = "a write without a token is refused";
const MALFORMED: &str = "a token that is no number is refused";
/// What a token that is none may look like.
const BAD: [&str; 7] = ["", "-1", "1.5", "7x", "1e3", "0x10", "18446744073709551616"];

/// The paths that a resource may have beside the primary one.
const PATHS: [(&str, &str); 3] = [
    ("cache", "the path cache is fenced too"),
    ("webhook", "the path webhook is fenced too"),
    ("admin", "the path admin is fenced too"),
];
const ANOTHER_CLIENT: &str = "only the reference resource's HTTP can be asked";

/// Writes without a token, and with what is none.
pub(super) async fn malformed(asked: &Asked, http: Option<&str>) -> Vec<Rule> {
    let client = reqwest::Client::builder().no_proxy().build();
    let (Some(keys), Ok(client)) = (http, client) else {
        let why = "the client of this resource always sends a number";
        return [MISSING, MALFORMED]
            .map(|name| Rule::not_asked(name, why))
            .into();
    };
    let mut rules = Vec::new();
    let malformed: Vec<_> = BAD.into_iter().map(Some).collect();
    for (name, tokens) in [(MISSING, vec![None]), (MALFORMED, malformed)] {
        let mut tally = Tally::default();
        for (number, token) in tokens.into_iter().enumerate() {
            let key = match token {
                Some(_) => format!("malformed-{number}"),
                None => "missing".to_owned(),
            };
            let mut request = client.put(format!("{keys}{key}")).body("x");
            if let Some(token) = token {
                request = request.header("fencing-token", token);
            }
            match said_no(request).await {
                // A no that wrote all the same shows in a read.
                Ok(true) => match asked.value(&key).await {
                    Ok(None) => tally.right(),
                    Ok(Some(_)) => tally.wrong(),
                    unknown => tally.unknown(heard(&unknown)),
                },
                Ok(false) => tally.wrong(),
                Err(why) => tally.unknown(Some(why)),
            }
        }
        rules.push(tally.rule(name));
    }
    rules
}

/// Whether a write that is none was refused as the wire format refuses: 400, or 409 with `stale-token`. Any other no
/// is none of the fence's.
async fn said_no(request: reqwest::RequestBuilder) -> Result<bool, String> {
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let stale = async |answer: reqwest::Response| {
        let body = answer.bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        body["error"] == "stale-token"
    };
    match status {
        StatusCode::OK => Ok(false),
        StatusCode::BAD_REQUEST => Ok(true),
        StatusCode::CONFLICT if stale(answer).await => Ok(true),
        status => Err(format!("HTTP {}", status.as_u16())),
    }
}

/// By each path a token below the key's mark.
pub(super) async fn paths(asked: &Asked, http: Option<&str>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (path, name) in PATHS {
        if http.is_none() {
            rules.push(Rule::not_asked(name, ANOTHER_CLIENT));
            continue;
        }
        let key = format!("path-{path}");
        let mut tally = Tally::default();
        let higher = asked.one(&key, 8, &format!("{key} new")).await;
        let value = format!("{key} old");
        let lower = asked.two_by(path, (&key, 7, &value)).await;
        match (higher, lower) {
            (Ok(_), Ok(_)) => tally.wrong(),
            (Ok(_), lower) if refused(&lower) => tally.right(),
            (higher, lower) => tally.unknown(heard(&higher).or(heard(&lower))),
        }
        rules.push(tally.rule(name));
    }
    rules
}
