// Requests that have ended, as they become known. One that has ended never changes, so only the newest are read again.

import { get } from "./api.js";

const ALL = 1000;
const NEWEST = 50;

const keyOf = (record) => `${record.gateway}/${record.request_id || record.id}/${record.started}`;

export class Records {
  constructor() {
    this.known = new Map();
  }

  get list() {
    return [...this.known.values()];
  }

  /** Reads what is new; everything, where more came than is read at once. Returns whether anything was. */
  async read() {
    const isFirst = this.known.size === 0;
    let data = await newest(isFirst ? ALL : NEWEST);
    if (!isFirst && data.length === NEWEST && !data.some((record) => this.known.has(keyOf(record)))) data = await newest(ALL);
    const before = this.known.size;
    for (const record of data) this.known.set(keyOf(record), record);
    const isNew = this.known.size > before;
    this.forget();
    return isNew;
  }

  forget() {
    if (this.known.size <= ALL) return;
    const kept = this.list.sort((one, other) => other.started - one.started).slice(0, ALL);
    this.known = new Map(kept.map((record) => [keyOf(record), record]));
  }
}

const newest = async (limit) => (await get(`headrace/requests?limit=${limit}`)).data;
