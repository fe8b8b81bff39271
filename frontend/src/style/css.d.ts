/** A module may name the style that it needs: Vite makes a file of it, loaded with the module. */
declare module "*.css";
