// Keeps the end of a growing text in view until the reader scrolls up, and offers the way back.

const NEAR = 48;

export class Follower {
  /** `scroller`: what scrolls; `content`: what grows in it; `button`: shown while the end is out of view. */
  constructor(scroller, content, button, signal) {
    Object.assign(this, { scroller, button, isFollowing: true, top: 0 });
    const observer = new ResizeObserver(() => this.keep());
    observer.observe(content);
    observer.observe(scroller);
    signal.addEventListener("abort", () => observer.disconnect());
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    button.addEventListener("click", () => { this.toEnd(); scroller.focus({ preventScroll: true }); });
  }

  get distance() {
    return this.scroller.scrollHeight - this.scroller.clientHeight - this.scroller.scrollTop;
  }

  scrolled() {
    const { scrollTop } = this.scroller;
    if (this.distance <= NEAR) this.isFollowing = true;
    else if (scrollTop < this.top - 1) this.isFollowing = false;
    this.top = scrollTop;
    this.button.hidden = this.distance <= NEAR;
  }

  keep() {
    if (this.isFollowing) this.toEnd();
    else this.button.hidden = this.distance <= NEAR;
  }

  toEnd() {
    this.isFollowing = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
    this.button.hidden = true;
  }
}
