//! `vramtape mcp`: the verbs that only read, as tools of the Model Context Protocol on standard input and output.
//!
//! A tool is a verb: its arguments are those of the command line, its result is the verb's `--json`. No argument names
//! a file to write. Standard output carries messages of the protocol and nothing else.

mod call;
mod schema;
mod tool;

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{QuitReason, RequestContext, ServerInitializeError};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use tokio::runtime;

use crate::Verdict;
use tool::VerbTool;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {}

/// Where to begin, for a client that has not read the documents.
const INSTRUCTIONS: &str = "vramtape explains the GPU memory of PyTorch programs. A run is a file: a tape (.vtape) \
    or a PyTorch memory snapshot (.pickle). Call explain_message for a pasted out-of-memory error, explain for a run \
    that ended with one, report for a summary, tune for settings that reserve less, fit for the smallest GPU.";

/// Serves until standard input ends.
pub(crate) fn run(_: &Options) -> Result<Verdict> {
    if io::stdin().is_terminal() {
        eprintln!(
            "waiting for a client of the Model Context Protocol on standard input; Ctrl-D to stop"
        );
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the server")?;
    let served = runtime.block_on(serve());
    runtime.shutdown_background(); // Calls that are still at work end with the process.
    served.map(|()| Verdict::Good)
}

async fn serve() -> Result<()> {
    let running = match Server::new()?.serve(rmcp::transport::stdio()).await {
        Ok(running) => running,
        // The client ended before it initialized.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error).context("the client did not initialize the session"),
    };
    match running.waiting().await? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The tools, in the order of the help.
struct Server {
    tools: Vec<VerbTool>,
}

impl Server {
    fn new() -> Result<Self> {
        Ok(Self { tools: tool::all()? })
    }

    async fn answer(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.definition.name == name) else {
            let known: Vec<&str> =
                self.tools.iter().map(|tool| tool.definition.name.as_ref()).collect();
            let text = format!("there is no tool {name:?}; known: {}", known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        };
        let question = match tool.question(&arguments) {
            Ok(question) => question,
            Err(error) => return Ok(CallToolResult::error(vec![ContentBlock::text(error)])),
        };
        let token = context.ct.clone();
        call::answer(question, move || token.is_cancelled()).await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("vramtape", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|tool| tool.definition.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        Ok(self.answer(&request.name, arguments, &context).await?.into())
    }
}
