//! A lock whose every grant carries a higher fencing token than the one before. Each lock is a part of its own.
//!
//! | operation | means |
//! |---|---|
//! | `acquire`, ok with a token | it was free, the token is higher than all before, and this client holds it |
//! | `release`, ok | this client held it (under this token, where it is told); it is free |
//! | `renew`, ok | this client holds it (under this token) |
//!
//! A `fail` did not happen. The holder is the *client*; where a history names none, the process. An acquire without an
//! answer may have been granted with any higher token.
//!
//! Where any acquire or renewal of the history tells a `ttl`, locks are *leased*: a hold may end at any moment by itself
//! (whether it ended too early is a question of time, and a rule of [`crate::fencing`]), and the release of a hold that
//! has ended does nothing.

use std::collections::HashMap;

use serde_json::Value;

use crate::history::{Name, Operation, Token};
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// A lock that gives out increasing tokens.
#[derive(Clone, Debug, Default)]
pub struct FencedMutex {
    clients: Vec<String>,
    numbers: HashMap<Name, u32>,
    leased: bool,
    /// The highest token before the history.
    given: Option<i128>,
}

/// Who holds a lock, and what was given out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Grants {
    /// The holder, and whether its token is known: then it is `last`.
    holder: Option<(u32, bool)>,
    /// The highest token given out; the least that it can be, where the last grant was not answered.
    last: i128,
}

/// What a client asks of a lock, and the token that it was answered or sent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GrantCall {
    client: u32,
    asks: Asks,
    token: Option<i128>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Asks {
    Acquire,
    Renew,
    Release,
}

impl FencedMutex {
    /// A lock that is free and has given out nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, leased whether the history tells a `ttl` or not.
    #[must_use]
    pub fn leased() -> Self {
        Self {
            leased: true,
            ..Self::default()
        }
    }

    /// A lock that is free and has given out tokens up to `initial`; `null`: none.
    ///
    /// # Errors
    /// When it is neither an integer in the range of tokens nor `null`.
    pub fn beginning(initial: &Value) -> Result<Self, Unfit> {
        let given = match initial {
            Value::Null => None,
            _ => Some(
                serde_json::from_value::<Token>(initial.clone())
                    .map_err(|_| Unfit("a fenced-mutex begins with a token".to_owned()))?
                    .value(),
            ),
        };
        Ok(Self {
            given,
            ..Self::default()
        })
    }

    fn client(&self, client: u32) -> &str {
        self.clients.get(client as usize).map_or("", String::as_str)
    }

    /// The state once `call`'s client is known to be the holder; `None`: it is not, or not under this token.
    fn holding(&self, state: &Grants, call: &GrantCall) -> Option<Grants> {
        let (holder, known) = state.holder?;
        let last = match call.token {
            Some(token) if known => (token == state.last).then_some(token)?,
            Some(token) => (token >= state.last).then_some(token)?,
            None => state.last,
        };
        (holder == call.client).then_some(Grants {
            holder: Some((holder, known || call.token.is_some())),
            last,
        })
    }
}

/// What an acquire needs and a release leaves; clients are numbers above.
const FREE: Trace = Trace::Value(u64::MAX);

impl Model for FencedMutex {
    type State = Grants;
    type Call = GrantCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<GrantCall>, Unfit> {
        let right = "it has acquire (ok with a token), renew and release";
        let asks = match recorded.f() {
            "acquire" => Asks::Acquire,
            "renew" => Asks::Renew,
            "release" => Asks::Release,
            _ => return Err(recorded.unfit("fenced-mutex", right)),
        };
        self.leased |= recorded.operation.ttl_ms.is_some();
        let name = recorded.operation.client;
        let clients = &mut self.clients;
        let client = *self.numbers.entry(name).or_insert_with(|| {
            clients.push(recorded.names.shown(name).into_owned());
            u32::try_from(clients.len() - 1).unwrap_or(u32::MAX)
        });
        let token = match (asks, recorded.token()) {
            _ if recorded.is_failed() => return Ok(None),
            (Asks::Acquire, None) if recorded.is_ok() => {
                return Err(recorded.unfit("fenced-mutex", right));
            }
            // What an acquire sends is not what it would have been granted.
            (Asks::Acquire, Some(_)) if recorded.is_unknown() => None,
            (_, token) => token.map(Token::value),
        };
        Ok(Some(GrantCall {
            client,
            asks,
            token,
        }))
    }

    fn initial(&self) -> Grants {
        Grants {
            holder: None,
            last: self.given.unwrap_or(Token::MIN.value() - 1),
        }
    }

    fn part(&self, operation: &Operation) -> Option<Name> {
        operation.lock
    }

    fn step(&self, state: &Grants, call: &GrantCall) -> Option<Grants> {
        match call.asks {
            Asks::Acquire => {
                let last = call.token.unwrap_or(state.last + 1);
                let free = state.holder.is_none() || self.leased;
                (free && last > state.last).then_some(Grants {
                    holder: Some((call.client, call.token.is_some())),
                    last,
                })
            }
            Asks::Renew => self.holding(state, call),
            Asks::Release => match self.holding(state, call) {
                Some(held) => Some(Grants {
                    holder: None,
                    last: held.last,
                }),
                None => self.leased.then_some(*state),
            },
        }
    }

    fn effect(&self, state: &Grants, call: &GrantCall) -> Effect {
        if let Some(token) = call.token {
            let gone = match call.asks {
                Asks::Acquire => token <= state.last,
                Asks::Renew => token < state.last,
                Asks::Release => token < state.last && !self.leased,
            };
            if gone {
                return Effect::Never;
            }
        }
        // A token is held once: a renewal that has nothing to tell has nothing to tell later, and the release of a hold
        // that is over is one from here on.
        match (self.step(state, call), call.asks) {
            (None, _) => Effect::NotNow,
            (Some(next), Asks::Renew) if next == *state => Effect::Looks,
            (Some(next), Asks::Release)
                if next == *state && call.token.is_some_and(|token| token <= state.last) =>
            {
                Effect::Looks
            }
            (Some(_), _) => Effect::Acts,
        }
    }

    fn needs(&self, call: &GrantCall) -> Trace {
        match call.asks {
            Asks::Acquire => FREE,
            // Of a leased lock it is possible whoever holds it.
            Asks::Release if self.leased => Trace::Everything,
            Asks::Renew | Asks::Release => Trace::Value(call.client.into()),
        }
    }

    fn leaves(&self, call: &GrantCall) -> Trace {
        match call.asks {
            Asks::Acquire | Asks::Renew => Trace::Value(call.client.into()),
            Asks::Release => FREE,
        }
    }

    fn show_state(&self, state: &Grants) -> String {
        let last = match state.holder {
            _ if state.last < Token::MIN.value() => "no token given".to_owned(),
            Some((_, false)) => format!("last token unknown, at least {}", state.last),
            _ => format!("last token {}", state.last),
        };
        match state.holder {
            None => format!("free, {last}"),
            Some((holder, _)) => format!("held by {}, {last}", self.client(holder)),
        }
    }

    fn show_call(&self, call: &GrantCall) -> String {
        let word = match call.asks {
            Asks::Acquire => "acquire",
            Asks::Renew => "renew",
            Asks::Release => "release",
        };
        let token = call
            .token
            .map_or_else(String::new, |token| format!(", token {token}"));
        format!("{word} by {}{token}", self.client(call.client))
    }
}
