// Questions to the engine's worker and their answers.

import type { Visitor, WorkerPlace } from "./desk.js";
import { FanlightError, errorOf } from "./errors.js";
import { ownLine, SharedLine, type Line } from "./owner.js";
import type { About, Question, RequestName, Requests, WorkerEvent } from "./protocol.js";

/** Hears the events of a question; an event counts as taken when the returned promise has resolved. */
export type Heard = (event: WorkerEvent) => Promise<void> | void;

/** A question that was asked. */
export interface Asked<N extends RequestName> {
  answer: Promise<Requests[N]["answer"]>;
  /** Stops it; resolves when it is over. */
  cancel(): Promise<void>;
}

interface Pending {
  answered: (answer: Requests[RequestName]["answer"]) => void;
  failed: (error: FanlightError) => void;
  heard: Heard;
}

export class Connection {
  private line: Line | null = null;
  private lastId = 0;
  private isClosed = false;
  private readonly pending = new Map<number, Pending>();

  /** `onEnd` hears when the worker ended, and with it the model that it held. */
  constructor(
    private readonly place: WorkerPlace & { isShared: boolean; mayWait: boolean },
    private readonly onEnd: (error: FanlightError) => void,
  ) {}

  /** Asks the worker, a fresh one when there is none. */
  ask<N extends RequestName>(name: N, fields: Requests[N]["ask"], heard: Heard = () => {}): Asked<N> {
    const id = ++this.lastId;
    const answer = new Promise<Requests[N]["answer"]>((answered, failed) => {
      if (this.isClosed) throw new FanlightError("disposed", "the engine was disposed of: create another");
      // The worker answers a question of one name with the answer of that name.
      this.pending.set(id, { answered: answered as Pending["answered"], failed, heard });
      const question = { name, ...fields } as Question;
      this.open().send({ type: "ask", id, question, mayWait: this.place.mayWait });
    });
    const cancel = async () => {
      if (this.pending.has(id)) await this.ask("cancel", { target: id }).answer;
    };
    return { answer, cancel };
  }

  /** Gives the worker up; everything that was asked fails. */
  close(): void {
    this.isClosed = true;
    this.fail(new FanlightError("disposed", "the engine was disposed of while this request ran"));
    this.line?.close();
  }

  private open(): Line {
    const visitor: Visitor = {
      about: (message) => this.hear(message),
      ended: (error) => {
        this.fail(error);
        if (!this.isClosed) this.onEnd(error);
      },
    };
    this.line ??= this.place.isShared ? new SharedLine(this.place, visitor) : ownLine(this.place, visitor);
    return this.line;
  }

  private fail(error: FanlightError): void {
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const { failed } of pending) failed(error);
  }

  private hear(message: About): void {
    const asked = this.pending.get(message.id);
    if (!asked) return;
    switch (message.type) {
      case "event":
        void this.take(message.id, asked, message.event);
        break;
      case "answer":
        this.pending.delete(message.id);
        asked.answered(message.answer);
        break;
      case "failure":
        this.pending.delete(message.id);
        asked.failed(errorOf(message.failure));
    }
  }

  private async take(id: number, asked: Pending, event: WorkerEvent): Promise<void> {
    try {
      await asked.heard(event);
    } finally {
      if (!this.isClosed) this.line?.send({ type: "acknowledge", id });
    }
  }
}
