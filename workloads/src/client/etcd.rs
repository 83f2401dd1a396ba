//! One client's connection to an etcd cluster, and what its errors prove.
//!
//! **One connection at a time, to one member.** It is made before the first request and again after a failure, then to
//! the next member. A connection that cannot be made is definite: no request left. (The crate's own way, a balancer
//! over all members that connects when it is asked, would hide that, and which member a request went to.)
//!
//! **Nothing is sent twice** (etcd-client 0.21, tonic 0.14): the crate repeats a call only where it is asked to renew
//! a login, which it is not here; tonic hands a request to one connection and reports what became of it.
//!
//! | what came back | outcome | why |
//! |---|---|---|
//! | no connection to the member: refused, or not in half of the time limit | fail | there was nothing to write a request to |
//! | `etcdserver: ...` under INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED or UNAUTHENTICATED | fail | etcd turned it away as it stands |
//! | `etcdserver: request timed out`, `no leader`, `leader changed` and all else under UNAVAILABLE | unknown | the proposal may still be committed |
//! | RESOURCE_EXHAUSTED, UNKNOWN, INTERNAL and every other status | unknown | not all of them come from etcd, nor before the commit |
//! | no answer in time, the connection broke | unknown | the answer may have been lost, not the request |
//!
//! Every unknown outcome drops the connection: what comes late is not taken for something else's answer, and a member
//! that is cut off from its leader is left.

use std::future::Future;
use std::time::Duration;

use etcd_client::{Channel, Client, ConnectOptions, DeleteOptions, Error, GetOptions};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::Endpoint as Member;

use super::password::password;
use super::{Endpoint, EndpointError, Errand, Failure, Reason, Steward, StewardError};
use crate::protocol::Settings;

/// One client's connection to a cluster.
pub(crate) struct Cluster {
    members: Vec<Member>,
    login: Option<(String, String)>,
    timeout: Duration,
    state: Mutex<State>,
}

/// The connection, and whose turn it is after it.
struct State {
    connection: Option<Client>,
    /// Rises with each connection, so that a failure drops the one that it was seen on and no later one.
    generation: u64,
    member: usize,
}

impl Cluster {
    /// Prepares a connection; none is opened yet.
    pub(crate) fn new(endpoint: &Endpoint<'_>, settings: &Settings) -> Result<Self, EndpointError> {
        let patience = endpoint.timeout / 2;
        let member = |address: &&str| {
            let member = Member::from_shared(format!("http://{address}"))
                .map_err(|error| endpoint.unusable(error.to_string()))?;
            Ok(member.connect_timeout(patience).tcp_nodelay(true))
        };
        let members = endpoint.addresses.iter().map(member);
        let members = members.collect::<Result<Vec<_>, EndpointError>>()?;
        if members.is_empty() {
            return Err(endpoint.unusable("at least one host:port is right"));
        }
        let secret = password(settings).map_err(|message| endpoint.unusable(message))?;
        let login = match (&settings.user, secret) {
            (Some(user), Some(secret)) => Some((user.clone(), secret)),
            (None, None) => None,
            _ => return Err(endpoint.unusable("a user and a password, or neither, is right")),
        };
        // Clients begin at different members, each at the same one whenever it is made.
        let first = endpoint.client.bytes().map(usize::from).sum::<usize>() % members.len();
        Ok(Self {
            members,
            login,
            timeout: endpoint.timeout,
            state: Mutex::new(State {
                connection: None,
                generation: 0,
                member: first,
            }),
        })
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Carries out one call, within the time limit.
    pub(crate) async fn call<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.call_within(self.timeout, request).await
    }

    /// Carries out one call that may take as long as `within` once there is a connection.
    pub(crate) async fn call_within<T, F>(
        &self,
        within: Duration,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (client, generation) = self.connection().await?;
        let failure = match timeout(within, request(client)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failure(&error),
            Err(_) => Failure::Unknown("no answer in time".to_owned()),
        };
        if matches!(failure, Failure::Unknown(_)) {
            self.leave(generation).await;
        }
        Err(failure)
    }

    /// The connection that there is, or a new one; and its generation.
    pub(crate) async fn connection(&self) -> Result<(Client, u64), Failure> {
        let mut state = self.state.lock().await;
        if let Some(client) = &state.connection {
            return Ok((client.clone(), state.generation));
        }
        let member = &self.members[state.member];
        match timeout(self.timeout / 2, self.connect(member)).await {
            Ok(Ok(client)) => {
                state.connection = Some(client.clone());
                state.generation += 1;
                Ok((client, state.generation))
            }
            failed => {
                state.member = (state.member + 1) % self.members.len();
                let why = match failed {
                    Ok(Err(why)) => why,
                    _ => "it took too long".to_owned(),
                };
                Err(Failure::Fail(Reason::Other(format!(
                    "no connection could be made: {why}"
                ))))
            }
        }
    }

    async fn connect(&self, member: &Member) -> Result<Client, String> {
        let channel = member.connect().await.map_err(|error| innermost(&error))?;
        let options = self
            .login
            .as_ref()
            .map(|(user, secret)| ConnectOptions::new().with_user(user.as_str(), secret.as_str()));
        Client::from_channel(Channel::Tonic(channel), options)
            .await
            .map_err(|error| error.to_string())
    }

    /// Drops the connection of that generation; the next one goes to the next member.
    pub(crate) async fn leave(&self, generation: u64) {
        let mut state = self.state.lock().await;
        if state.generation == generation && state.connection.take().is_some() {
            state.member = (state.member + 1) % self.members.len();
        }
    }
}

/// What an error proves; see the table above.
pub(crate) fn failure(error: &Error) -> Failure {
    let Error::GRpcStatus(status) = error else {
        return Failure::Unknown(error.to_string());
    };
    let words = format!("{}: {}", status.code(), status.message());
    let turned_away = matches!(
        status.code(),
        Code::InvalidArgument | Code::NotFound | Code::PermissionDenied | Code::Unauthenticated
    );
    if turned_away && status.message().starts_with("etcdserver: ") {
        Failure::Fail(Reason::Other(words))
    } else {
        Failure::Unknown(words)
    }
}

/// The last cause in the chain: the outer ones say "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Where everything of a run lies: `fp_ab12/`.
pub(crate) fn place(endpoint: &Endpoint<'_>) -> Result<String, EndpointError> {
    Ok(format!("{}/", endpoint.plain_namespace()?))
}

/// Looks after a run's keys.
struct Keys {
    cluster: Cluster,
    place: String,
}

/// Makes the one who looks after a run's keys.
pub(crate) fn steward(
    endpoint: &Endpoint<'_>,
    settings: &Settings,
) -> Result<Box<dyn Steward>, EndpointError> {
    Ok(Box::new(Keys {
        cluster: Cluster::new(endpoint, settings)?,
        place: place(endpoint)?,
    }))
}

impl Steward for Keys {
    /// A read that needs a quorum.
    fn ready(&self) -> Errand<'_, ()> {
        Box::pin(async {
            let probe = format!("{}ready", self.place);
            let read = self
                .cluster
                .call(async |mut client| client.get(probe, None).await);
            read.await.map(drop).map_err(words)
        })
    }

    /// Keys of others are the rule in an etcd, and the run touches none outside its own prefix.
    fn strangers(&self) -> Errand<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// A key needs no place before it is written; that none is left of an earlier run of that name is made sure.
    fn prepare(&self) -> Errand<'_, ()> {
        self.clear()
    }

    fn clear(&self) -> Errand<'_, ()> {
        Box::pin(async {
            let place = self.place.as_str();
            // A lease outlives the key that it was asked for.
            let keys = GetOptions::new().with_prefix().with_keys_only();
            let held = (self.cluster).call(async |mut client| client.get(place, Some(keys)).await);
            let mut leases: Vec<i64> = (held.await.map_err(words)?.kvs().iter())
                .map(etcd_client::KeyValue::lease)
                .filter(|&lease| lease != 0)
                .collect();
            leases.sort_unstable();
            leases.dedup();
            for lease in leases {
                let revoked =
                    (self.cluster).call(async |mut client| known(client.lease_revoke(lease).await));
                // One that is unknown has lapsed by itself.
                revoked.await.map_err(words)?;
            }
            let all = DeleteOptions::new().with_prefix();
            let delete =
                (self.cluster).call(async |mut client| client.delete(place, Some(all)).await);
            delete.await.map_err(words)?;
            let (count, all) = (GetOptions::new().with_count_only(), GetOptions::with_prefix);
            let left =
                (self.cluster).call(async |mut client| client.get(place, Some(all(count))).await);
            match left.await.map_err(words)?.count() {
                0 => Ok(()),
                left => Err(StewardError(format!("{left} keys are left under {place}"))),
            }
        })
    }
}

/// An answer about a lease; `None` where there is no such lease any more.
pub(crate) fn known<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        // The crate's word for a keep-alive that is answered with a TTL of 0.
        Err(Error::LeaseKeepAliveError(text)) if text == "lease not found" => Ok(None),
        Err(Error::GRpcStatus(status))
            if status.code() == Code::NotFound
                && status.message() == "etcdserver: requested lease not found" =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn words(failure: Failure) -> StewardError {
    StewardError(match failure {
        Failure::Fail(reason) => reason.to_string(),
        Failure::Unknown(text) => text,
    })
}
