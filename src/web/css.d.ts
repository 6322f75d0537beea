/** Lets the bundler take styles from imports. */
declare module "*.css";
