//! Sockets: bound before the model loads, so that a port in use is told at once, and served on a thread of
//! their own, so that the engine's work never keeps anybody from being heard.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::patient::Patient;
use super::routes::{Server, respond};

/// Connections at once; more wait in the operating system's line.
const CONNECTIONS_MAX: usize = 128;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of a head, and lines.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEAD_LINES_MAX: usize = 100;
/// After an accept that failed, as when all file handles are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds the address, or both loopback addresses at one port.
pub fn bind(host: Option<IpAddr>, port: u16) -> Result<Vec<TcpListener>> {
    let bind = |ip: IpAddr, port: u16| {
        let address = SocketAddr::new(ip, port);
        let in_use = || format!("cannot listen at {address}: choose another --port, or end what uses it");
        TcpListener::bind(address).with_context(in_use)
    };
    let first = bind(host.unwrap_or(Ipv4Addr::LOCALHOST.into()), port)?;
    let port = first.local_addr().context("the socket has no address")?.port();
    let mut listeners = vec![first];
    if host.is_none() {
        // A machine without IPv6 is served at the other address alone.
        listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)));
    }
    Ok(listeners)
}

/// Serves the listeners on a thread of their own, for as long as the process lives.
pub fn spawn(listeners: Vec<TcpListener>, server: Arc<Server>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the server's runtime")?;
    let context = || "cannot start the server's thread";
    let run = move || runtime.block_on(serve(listeners, server));
    std::thread::Builder::new().name("http".into()).spawn(run).with_context(context)?;
    Ok(())
}

async fn serve(listeners: Vec<TcpListener>, server: Arc<Server>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = listeners.into_iter().map(|listener| {
        let accepting = accept(listener, server.clone(), places.clone());
        async {
            if let Err(error) = accepting.await {
                eprintln!("fanlight: the server cannot listen any more: {error}");
            }
        }
    });
    futures::future::join_all(accepting).await;
}

/// Accepts connections as there are places. Ends only when the socket cannot be used at all.
async fn accept(listener: TcpListener, server: Arc<Server>, places: Arc<Semaphore>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Tokens are small packets: each is to leave at once.
        let _ = stream.set_nodelay(true);
        let server = server.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(respond(server, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(HEAD_LINES_MAX)
                .serve_connection(TokioIo::new(Patient::new(stream)), answer);
            // What ends a connection early is the peer's affair.
            let _ = connection.await;
            drop(place);
        });
    }
}
