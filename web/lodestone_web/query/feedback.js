// Thumbs: whether pictures were right for the words, what the engine learnt of it, and how it is taken back.
import { batch } from "../html.js";
import { postJson, toldOf } from "../engine/http.js";
import { ask, lock } from "./asking.js";
import { wrongLast } from "./judging.js";
import * as store from "./store.js";

const given = new Map(); // image id -> what was told the service about it, by which it is taken back
let turn = Promise.resolve(); // what is told and what is taken back reach the service in the order of the clicks

/** Say whether a picture was right for the words, or take that back where it was said before. Then ask again, so that it shows. */
export async function judge(hit, right) {
  const { image_id: id } = hit;
  const before = store.judged.value.get(id);
  if (before === right) return withdraw(hit);
  if (before === undefined) given.delete(id); // what was said about it for other words stays
  const order = store.hits.value;
  batch(() => {
    marked(id, right);
    store.hits.value = wrongLast(order);
  });
  const moved = store.hits.value;
  let standing = before;
  const body = { query_id: hit.query_id ?? store.answer.value.query_id, [right ? "relevant" : "irrelevant"]: [id] };
  try {
    const result = await inTurn(async () => {
      await takeBack(id); // somebody who was wrong about it says so now
      standing = undefined;
      const told = await postJson("/v1/feedback", body);
      given.set(id, body);
      return told;
    });
    store.announcement.value = learnt(result);
    store.toast.value = { text: learnt(result), label: "Undo", act: () => withdraw(hit) };
    await again();
  } catch (error) {
    marked(id, standing); // other pictures may have been judged meanwhile
    if (store.hits.value === moved) store.hits.value = order;
    failed(error);
  }
  return undefined;
}

/** Take back what was said about a picture, and ask again. */
export async function withdraw({ image_id: id }) {
  const verdict = store.judged.value.get(id);
  if (verdict === undefined) return;
  marked(id, undefined);
  try {
    await inTurn(() => takeBack(id));
    store.announcement.value = store.toast.value = "Taken back: this judgement does not count any more.";
    await again();
  } catch (error) {
    marked(id, verdict);
    failed(error);
  }
}

function inTurn(work) {
  turn = turn.then(work, work);
  return turn;
}

async function takeBack(id) {
  const body = given.get(id);
  if (!body) return;
  await postJson("/v1/feedback/withdraw", body);
  given.delete(id);
}

function again() {
  return ask(store.asked.value, { step: false, address: false, keepOpen: true });
}

function marked(id, verdict) {
  const changed = new Map(store.judged.value);
  if (verdict === undefined) changed.delete(id);
  else changed.set(id, verdict);
  store.judged.value = changed;
}

function failed(error) {
  if (error.status === 401) lock();
  store.toast.value = toldOf(error);
}

function learnt({ applied, before, after }) {
  if (!applied) return "This was known already.";
  const moved = Object.keys(after).some((space) => Math.abs(after[space] - (before[space] ?? 1)) > 0.0005);
  return moved ? "Thank you. The search learnt from it." : "Thank you. The order of the pictures stays.";
}
